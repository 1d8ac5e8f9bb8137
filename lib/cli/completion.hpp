#pragma once

#include <string>

#include "cli/command.hpp"

namespace attn::cli {

/// The text of --completion=SHELL: a script that completes options, their values and file names.
/// `shell` is bash, zsh or fish; any other is a bug: std::logic_error. bash: source it, or install
/// it as share/bash-completion/completions/TOOL. zsh: source it after compinit, or install it as
/// _TOOL in a folder of fpath. fish: source it, or install it as TOOL.fish in
/// share/fish/vendor_completions.d.
std::string completion_script(const Declaration& declaration, const std::string& shell);

}  // namespace attn::cli
