#pragma once

#include <string>

namespace attn::tools {

/// Where and when claims were checked.
struct RunStamp {
  std::string commit;   ///< "4c07d15a1b2c", with "-dirty" after changes; "unknown" without git
  std::string version;  ///< of the tools
  std::string cpu;      ///< model, as the system names it
  std::string date;     ///< UTC, "2026-01-31T12:00:00.000Z"
};

/// The model of the CPU by /proc/cpuinfo, else the architecture.
std::string cpu_model();

/// The stamp of a run now. The commit is `commit` or, if that is empty, the commit of the
/// repository with the folder `claims`, by git. `scratch` is a scratch folder.
RunStamp stamp_of_run(const std::string& version, const std::string& claims,
                      const std::string& commit, const std::string& scratch);

}  // namespace attn::tools
