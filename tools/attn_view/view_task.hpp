#pragma once

#include <array>

#include "cli/command.hpp"
#include "common/heads/attention_input.hpp"
#include "io/input.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// The schemes of the page.
inline constexpr std::array<Scheme, 2> view_schemes = {Scheme::unas, Scheme::dnas};

/// The task of attn-view for one section: INPUT, or one group of it.
struct ViewTask {
  /// Checks everything but the numbers. Throws the errors of resolving the options and of
  /// AttentionInput.
  ViewTask(const cli::Arguments& arguments, io::InputBundle section);

  /// Whether `bundle` has datasets from which the task can be computed.
  static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle);

  io::InputBundle bundle;
  AttentionInput input;
  bool f64 = false;
};

}  // namespace attn::tools
