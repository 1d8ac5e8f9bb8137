#include "parallel/stop_flag.hpp"

#include <utility>

namespace attn {
namespace {

thread_local const std::atomic<bool>* flag_of_thread = nullptr;

}  // namespace

const std::atomic<bool>* StopFlag::current() noexcept { return flag_of_thread; }

StopFlag::Use::Use(const std::atomic<bool>* flag) noexcept
    : before_(std::exchange(flag_of_thread, flag)) {}

StopFlag::Use::~Use() { flag_of_thread = before_; }

}  // namespace attn
