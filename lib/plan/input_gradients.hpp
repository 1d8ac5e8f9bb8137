#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "gradient/shared_sums.hpp"
#include "head/number_check.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"
#include "plan/transport_source.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn::plan {

/// The gradient of a number of all problems by one operand. It has the operand's shape: problems
/// that share a block are summed (SharedSums). For an absent operand, every problem has a block of
/// its own. Problems come in waves, those of a wave at the same time.
template <class T>
class OperandGradient {
 public:
  /// `operand` broadcasts to `leading`, the axes of the problems; `block` are the axes of its
  /// blocks. Waves have at most `wave` problems. `finite`: infinite sums are an error.
  OperandGradient(std::string name, const PlanArray& operand, const Shape& leading,
                  const Shape& block, Index wave, bool finite)
      : name_(std::move(name)),
        shape_(join(operand.present() ? operand.leading() : leading, block)),
        size_(element_count(block)),
        wave_(wave),
        finite_(finite),
        block_of_(static_cast<std::size_t>(element_count(leading))),
        sums_({}, 0) {
    for (std::size_t n = 0; n < block_of_.size(); ++n) {
      const auto problem = static_cast<Index>(n);
      block_of_[n] = operand.present() ? operand.block_of(problem) : problem;
    }
    sums_ = SharedSums<T>(block_of_, element_count(leading_axes(shape_, block.size())));
  }

  bool is_shared() const { return size_ > 0 && sums_.any_shared(); }

  /// Bytes that a run takes if the gradient is requested.
  std::int64_t bytes() const {
    if (!is_shared()) return 0;
    const Index sums = sums_.most_open();
    return size_ * ((wave_ + 1) * static_cast<Index>(sizeof(T)) +
                    sums * static_cast<Index>(sizeof(double))) +
           (sums + 2) * buffer_margin;
  }

  /// Begins a run. Throws Error(input) if the output is requested and has another shape.
  void start(const std::string& of, const TensorView<T>& output) {
    require_output(of + "." + name_, output, shape_);
    output_ = output;
    of_ = of;
    if (!output_) return;
    if (is_shared()) parts_ = Buffer<T>(wave_ * size_);
    if (block_of_.empty()) std::fill_n(output_.data, element_count(shape_), T{0});
  }

  /// Where number `at` of a wave writes its part, a block; empty if the output is not requested.
  std::span<T> part(Index problem, Index at) const {
    if (!output_) return {};
    T* const first =
        sums_.is_alone(problem) ? output_.data + block(problem) * size_ : &parts_[at * size_];
    return {first, static_cast<std::size_t>(size_)};
  }

  /// Adds this part to the sum. Call for all problems of a wave in order. Throws Error(numerical).
  void collect(Index problem, Index at) {
    if (!output_ || sums_.is_alone(problem)) return;
    const auto sum = sums_.add(problem, part(problem, at));
    // NaN: of an infeasible problem.
    if (finite_ && std::any_of(sum.begin(), sum.end(), [](T x) { return std::isinf(x); })) {
      throw_beyond_range<T>(of_ + "." + name_ + " is beyond the range of");
    }
    std::copy(sum.begin(), sum.end(), output_.data + block(problem) * size_);
  }

  /// Returns the memory of a run.
  void finish() {
    output_ = {};
    parts_ = Buffer<T>();
    sums_.restart();
  }

 private:
  Index block(Index problem) const { return block_of_[static_cast<std::size_t>(problem)]; }

  std::string name_, of_;
  Shape shape_;
  Index size_, wave_;
  bool finite_;
  PooledVector<Index> block_of_;
  SharedSums<T> sums_;
  TensorView<T> output_ = {};
  Buffer<T> parts_;
};

/// Where the gradients of one problem go; empty spans are not requested.
template <class T>
struct InputGradientParts {
  std::span<T> matrix = {};
  std::array<std::span<double>, 2> masses = {};
  std::span<T> x = {}, y = {};

  /// Throws Error(numerical) if a gradient is not finite, except those by masses of 0.
  void require_finite(const std::string& of) const {
    for (const auto& [name, part] :
         {std::pair(".matrix", matrix), std::pair(".x", x), std::pair(".y", y)}) {
      if (all_finite(part.data(), static_cast<Index>(part.size()))) continue;
      throw_beyond_range<T>(of + name + " is beyond the range of");
    }
  }

  void set_to_nan() const {
    for (const std::span<T>& part : {matrix, x, y}) {
      std::fill(part.begin(), part.end(), std::numeric_limits<T>::quiet_NaN());
    }
    for (const std::span<double>& part : masses) {
      std::fill(part.begin(), part.end(), std::numeric_limits<double>::quiet_NaN());
    }
  }
};

/// Masses: an operand and the axes of its blocks.
struct InputMasses {
  const PlanArray& operand;
  Shape block;
};

/// The gradients of a number of all problems by the operands of a plan of transport: the cost or
/// the scores, two arrays of masses, and the points. Derivatives by the scores of points have no
/// operand.
template <class T>
class InputGradients {
 public:
  /// `wave` as in OperandGradient.
  InputGradients(const TransportSource& source, const std::array<InputMasses, 2>& masses,
                 const Shape& leading, Index wave)
      : wave_(wave), has_points_(source.has_points()) {
    const Index depth = has_points_ ? source.depth() : 0;
    for (const auto& [name, operand, block] :
         {std::tuple("matrix", &source.matrix(), Shape{source.rows(), source.cols()}),
          std::tuple("x", &source.x(), Shape{source.rows(), depth}),
          std::tuple("y", &source.y(), Shape{source.cols(), depth})}) {
      numbers_.emplace_back(name, *operand, leading, block, wave, true);
    }
    for (const auto& [operand, block] : masses) {
      masses_.emplace_back(operand.name(), operand, leading, block, wave, false);
    }
  }

  /// Bytes that `run` takes if all gradients are requested.
  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for_each([&](const auto& gradient) { bytes += gradient.bytes(); });
    return bytes;
  }

  /// The outputs of a run.
  struct Outputs {
    TensorView<T> matrix;
    std::array<TensorView<double>, 2> masses;
    TensorView<T> x, y;
  };

  /// Calls body(problem, parts, threads) for all problems, with the memory of the thread's pool,
  /// and adds up what they share. `of` names the gradients in errors: Error(input) for an output of
  /// another shape, Error(usage) for one by points if there are none.
  template <class Body>
  void run(Problems& problems, const std::string& of, const Outputs& outputs, const Body& body) {
    if (!has_points_ && (outputs.x || outputs.y)) {
      throw Error(Failure::usage, of + ".x and " + of + ".y require points");
    }
    const Finish finish{*this};
    numbers_[0].start(of, outputs.matrix);
    numbers_[1].start(of, outputs.x);
    numbers_[2].start(of, outputs.y);
    for (std::size_t n = 0; n < masses_.size(); ++n) masses_[n].start(of, outputs.masses[n]);
    bool shared = false;
    for_each([&](const auto& gradient) { shared = shared || gradient.is_shared(); });
    const Index count = problems.count();
    const Index step = shared ? wave_ : count;
    for (Index first = 0; first < count; first += step) {
      const Index last = std::min(count, first + step);
      problems.for_each(first, last, [&](Index problem, int threads) {
        const Index at = problem - first;
        body(problem,
             InputGradientParts<T>{numbers_[0].part(problem, at),
                                   {masses_[0].part(problem, at), masses_[1].part(problem, at)},
                                   numbers_[1].part(problem, at),
                                   numbers_[2].part(problem, at)},
             threads);
      });
      for (Index problem = first; problem < last; ++problem) {
        for_each([&](auto& gradient) { gradient.collect(problem, problem - first); });
      }
    }
  }

 private:
  struct Finish {
    InputGradients& gradients;
    ~Finish() {
      gradients.for_each([](auto& gradient) { gradient.finish(); });
    }
  };

  template <class Body>
  void for_each(const Body& body) {
    for (auto& gradient : numbers_) body(gradient);
    for (auto& gradient : masses_) body(gradient);
  }
  template <class Body>
  void for_each(const Body& body) const {
    for (const auto& gradient : numbers_) body(gradient);
    for (const auto& gradient : masses_) body(gradient);
  }

  Index wave_;
  bool has_points_;
  std::vector<OperandGradient<T>> numbers_;  // by the matrix, x and y
  std::vector<OperandGradient<double>> masses_;
};

}  // namespace attn::plan
