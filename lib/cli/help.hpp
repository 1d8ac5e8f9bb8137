#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

// What a tool prints about itself.

namespace attn::cli {

/// The text of --help: at most 80 columns wide, ending with a line break, the same on every
/// machine.
std::string help_text(const Declaration& declaration);

/// The text of --version: "attn-compute 0.1.0", then a line for each library.
std::string version_text(const Declaration& declaration, const std::vector<std::string>& libraries);

/// The text of --man: a manual page of section 1 in the roff macros of man(7), in UTF-8, the same
/// on every machine. Empty sections are omitted.
std::string man_page(const Declaration& declaration);

/// `text` as roff prints it literally, in running text and in examples: hyphens stay hyphens,
/// quotes stay straight, and no line is mistaken for a request.
std::string roff_escaped(const std::string& text);

/// The text of --completion=SHELL: a script that completes options, their values and file names.
/// `shell` is bash, zsh or fish; any other is a bug: std::logic_error. bash: source it, or install
/// it as share/bash-completion/completions/TOOL. zsh: source it after compinit, or install it as
/// _TOOL in a folder of fpath. fish: source it, or install it as TOOL.fish in
/// share/fish/vendor_completions.d.
std::string completion_script(const Declaration& declaration, const std::string& shell);

}  // namespace attn::cli
