#include "common/process/tool_main.hpp"

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::basis_paths);
}
