#pragma once

// Checks of a mechanism against a plain evaluation: results, gradients by differences, batches.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "long_run.hpp"
#include "mechanisms/batch.hpp"

namespace attn::testing {

using Values = std::vector<long double>;

/// What a plain evaluation reads and computes, in the order of the form; an absent input is empty.
struct PlainSequence {
  mechanisms::Sizes sizes;
  std::vector<Values> inputs;
  std::vector<std::vector<Index>> tokens;

  Index size(const char* symbol) const { return sizes.at(symbol); }
};
using Plain = std::vector<Values> (*)(const PlainSequence&);

inline Index count_of(const Shape& shape) {
  Index count = 1;
  for (const Index length : shape) count *= length;
  return count;
}

/// What random inputs are drawn from.
struct Draws {
  Draws(Index below = 5) : vocabulary(below) {}

  Index vocabulary;                                         ///< tokens are below
  std::map<std::string, std::pair<double, double>> ranges;  ///< of inputs; of others (-1, 1)
  std::set<std::string> absent;                             ///< optional inputs

  std::pair<double, double> range(const std::string& input) const {
    const auto found = ranges.find(input);
    return found == ranges.end() ? std::pair(-1.0, 1.0) : found->second;
  }
};

inline Values random_values(Index count, std::mt19937_64& random,
                            std::pair<double, double> range = {-1, 1}) {
  std::uniform_real_distribution<double> any(range.first, range.second);
  Values values(static_cast<std::size_t>(count));
  // Rounded to float32, so that both types see the same numbers.
  for (long double& one : values) one = static_cast<float>(any(random));
  return values;
}

/// A random token: below the length of the axis that the form names, else below `vocabulary`.
inline Index random_token(const mechanisms::TensorForm& tokens, const mechanisms::Sizes& sizes,
                          Index vocabulary, std::mt19937_64& random) {
  const Index end = tokens.below.empty() ? vocabulary : std::max<Index>(1, sizes.at(tokens.below));
  return static_cast<Index>(random() % static_cast<std::uint64_t>(end));
}

inline PlainSequence random_sequence(const mechanisms::MechanismForm& form,
                                     const mechanisms::Sizes& sizes, const Draws& draws,
                                     std::mt19937_64& random) {
  PlainSequence made{sizes, {}, {}};
  for (const auto& input : form.inputs) {
    const bool absent = draws.absent.count(input.name) > 0;
    const Index count = absent ? 0 : count_of(mechanisms::shape_of(input.axes, sizes));
    made.inputs.push_back(random_values(count, random, draws.range(input.name)));
  }
  for (const auto& tokens : form.tokens) {
    std::vector<Index> own(
        static_cast<std::size_t>(count_of(mechanisms::shape_of(tokens.axes, sizes))));
    for (Index& one : own) one = random_token(tokens, sizes, draws.vocabulary, random);
    made.tokens.push_back(own);
  }
  return made;
}

/// Numbers of type T behind the tensors of a form.
template <class T>
struct Stored {
  std::vector<std::vector<T>> numbers;
  std::vector<Shape> shapes;

  void add(const Values& values, const Shape& shape) {
    numbers.emplace_back(values.begin(), values.end());
    numbers.back().reserve(1);  // data() even if it is empty
    shapes.push_back(shape);
  }

  /// A tensor without data.
  void add_absent(const Shape& shape) {
    numbers.emplace_back();
    shapes.push_back(shape);
  }

  void add_room(const Shape& shape) {
    numbers.emplace_back(static_cast<std::size_t>(count_of(shape)), static_cast<T>(std::nan("")));
    numbers.back().reserve(1);
    shapes.push_back(shape);
  }

  template <class Element>
  mechanisms::Tensors<Element> views() {
    mechanisms::Tensors<Element> made;
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const bool absent = numbers[n].capacity() == 0;
      made.push_back({absent ? nullptr : numbers[n].data(), shapes[n]});
    }
    return made;
  }
};

template <class T>
class MechanismCheck {
 public:
  MechanismCheck(const mechanisms::Mechanism<T>& mechanism, Plain plain, PlainSequence sequence)
      : mechanism_(mechanism), plain_(plain), sequence_(std::move(sequence)) {
    const auto& form = mechanism_.form();
    for (std::size_t n = 0; n < form.inputs.size(); ++n) {
      const Shape shape = mechanisms::shape_of(form.inputs[n].axes, sequence_.sizes);
      if (sequence_.inputs[n].empty() && count_of(shape) > 0) {
        inputs_.add_absent(shape);
        grad_inputs_.add_absent(shape);
        continue;
      }
      inputs_.add(sequence_.inputs[n], shape);
      grad_inputs_.add_room(shape);
    }
    for (std::size_t n = 0; n < form.tokens.size(); ++n) {
      tokens_.numbers.push_back(sequence_.tokens[n]);
      tokens_.shapes.push_back(mechanisms::shape_of(form.tokens[n].axes, sequence_.sizes));
    }
    for (const auto& result : form.results) {
      results_.add_room(mechanisms::shape_of(result.axes, sequence_.sizes));
    }
  }

  /// The largest |difference| from the plain evaluation, relative to 1 and its magnitude.
  double error_of_results() {
    mechanism_.forward(views(), results_.template views<T>(), 1);
    const std::vector<Values> expected = plain_(sequence_);
    double worst = 0;
    for (std::size_t r = 0; r < expected.size(); ++r) {
      REQUIRE(expected[r].size() == results_.numbers[r].size());
      for (std::size_t n = 0; n < expected[r].size(); ++n) {
        add_error(results_.numbers[r][n], expected[r][n], worst);
      }
    }
    return worst;
  }

  /// The same for the gradients of Σ g·result with random g, against central differences of the
  /// plain evaluation: in short runs, of some 24 elements of each input.
  double error_of_gradients(std::mt19937_64& random) {
    Stored<T> upstream;
    std::vector<Values> weights;
    for (const Shape& shape : results_.shapes) {
      weights.push_back(random_values(count_of(shape), random));
      upstream.add(weights.back(), shape);
    }
    auto grad_results = upstream.template views<const T>();
    for (std::size_t r = 0; r < grad_results.size(); ++r) {
      if (mechanism_.form().results[r].differentiable) continue;
      grad_results[r] = {};
    }
    mechanism_.backward(views(), grad_results, grad_inputs_.template views<T>(), 1);
    const auto loss = [&](const PlainSequence& at) {
      const std::vector<Values> results = plain_(at);
      long double sum = 0;
      for (std::size_t r = 0; r < results.size(); ++r) {
        if (!mechanism_.form().results[r].differentiable) continue;
        for (std::size_t n = 0; n < results[r].size(); ++n) sum += weights[r][n] * results[r][n];
      }
      return sum;
    };
    constexpr long double step = 1e-5L;
    double worst = 0;
    for (std::size_t i = 0; i < sequence_.inputs.size(); ++i) {
      const std::size_t size = sequence_.inputs[i].size();
      for (std::size_t n = 0; n < size; n += long_run() ? 1 : 1 + size / 24) {
        PlainSequence moved = sequence_;
        moved.inputs[i][n] += step;
        const long double above = loss(moved);
        moved.inputs[i][n] -= 2 * step;
        add_error(grad_inputs_.numbers[i][n], (above - loss(moved)) / (2 * step), worst);
      }
    }
    return worst;
  }

 private:
  mechanisms::Sequence<T> views() {
    return {inputs_.template views<const T>(), tokens_.views<const Index>()};
  }

  // NaN is an infinite error, and equal infinities are none.
  static void add_error(T found, long double expected, double& worst) {
    if (found == expected) return;
    const long double error = std::abs(found - expected) / std::max(1.0L, std::abs(expected));
    worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity()
                                              : static_cast<double>(error));
  }

  const mechanisms::Mechanism<T>& mechanism_;
  Plain plain_;
  PlainSequence sequence_;
  Stored<T> inputs_, grad_inputs_, results_;
  Stored<Index> tokens_;
};

/// Results and gradients of a mechanism at these sizes: to 1e-12 of the plain evaluation in float64
/// and 1e-5 in float32; gradients to the error of the differences, 1e-8, and to 1e-4 in float32.
template <class T>
void check_mechanism(const mechanisms::Mechanism<T>& mechanism, Plain plain,
                     const mechanisms::Sizes& sizes, const Draws& draws = {}) {
  std::string named;
  for (const auto& [symbol, length] : sizes) named += symbol + " = " + std::to_string(length) + " ";
  CAPTURE(named);
  std::mt19937_64 random(7);
  constexpr bool is_double = std::is_same_v<T, double>;
  MechanismCheck<T> check(mechanism, plain,
                          random_sequence(mechanism.form(), sizes, draws, random));
  CHECK(check.error_of_results() < (is_double ? 1e-12 : 1e-5));
  CHECK(check.error_of_gradients(random) < (is_double ? 1e-8 : 1e-4));
}

/// A padded batch gives each sequence's own results and gradients to the last bit, on any number of
/// threads, and what the form says in the padding, whose numbers are not looked at. The gradients
/// of shared inputs are the sums of those of the sequences.
template <class T>
void check_batch(const mechanisms::Mechanism<T>& mechanism, const mechanisms::Sizes& padded,
                 const std::vector<mechanisms::Sizes>& own, int threads, const Draws& draws = {}) {
  using namespace mechanisms;
  const MechanismForm& form = mechanism.form();
  std::mt19937_64 random(11);
  const auto count = static_cast<Index>(own.size());
  // Arrays of the batch are filled with NaN, and the sequences copied into it.
  const auto sequence_size = [&](const TensorForm& one) {
    return count_of(mechanisms::shape_of(one.axes, padded));
  };
  const auto is_shared = [](const TensorForm& one) { return one.kind == TensorForm::Kind::shared; };
  Stored<T> inputs, results, upstream, gradients;
  Stored<Index> tokens, lengths;
  const auto batched = [&](const TensorForm& one) {
    Shape shape = mechanisms::shape_of(one.axes, padded);
    if (!is_shared(one)) shape.insert(shape.begin(), count);
    return shape;
  };
  for (const auto& one : form.inputs) {
    inputs.add_room(batched(one));
    gradients.add_room(batched(one));
    if (is_shared(one)) {
      const Values values = random_values(sequence_size(one), random, draws.range(one.name));
      inputs.numbers.back().assign(values.begin(), values.end());
    }
  }
  for (const auto& one : form.results) {
    results.add_room(batched(one));
    upstream.add_room(batched(one));
  }
  for (const auto& one : form.tokens) {
    tokens.numbers.emplace_back(static_cast<std::size_t>(count * sequence_size(one)), -1);
    tokens.shapes.push_back(batched(one));
  }
  for (const auto& one : form.lengths) {
    lengths.shapes.push_back({count});
    lengths.numbers.emplace_back();
    for (const Sizes& sizes : own) lengths.numbers.back().push_back(sizes.at(one.symbol));
  }
  // Places of a sequence's own elements in its part of a padded array.
  const auto places = [&](const TensorForm& one, const Sizes& sizes) {
    const Shape part = mechanisms::shape_of(one.axes, sizes);
    const Shape whole = mechanisms::shape_of(one.axes, padded);
    std::vector<std::size_t> found;
    for (Index n = 0; n < count_of(part); ++n) {
      Index place = 0, rest = n, step = 1;
      for (std::size_t axis = part.size(); axis-- > 0;) {
        place += rest % part[axis] * step;
        rest /= part[axis];
        step *= whole[axis];
      }
      found.push_back(static_cast<std::size_t>(place));
    }
    return found;
  };
  std::vector<Stored<T>> own_inputs(own.size()), own_results(own.size()), own_upstream(own.size()),
      own_gradients(own.size());
  std::vector<Stored<Index>> own_tokens(own.size());
  for (std::size_t b = 0; b < own.size(); ++b) {
    const auto fill = [&](Stored<T>& target, Stored<T>& alone, const TensorForm& one,
                          std::size_t n) {
      const Shape shape = mechanisms::shape_of(one.axes, own[b]);
      if (is_shared(one)) {
        alone.numbers.push_back(target.numbers[n]);
        alone.shapes.push_back(shape);
        return;
      }
      alone.add(random_values(count_of(shape), random), shape);
      const auto at = places(one, own[b]);
      for (std::size_t i = 0; i < at.size(); ++i) {
        target.numbers[n][b * static_cast<std::size_t>(sequence_size(one)) + at[i]] =
            alone.numbers.back()[i];
      }
    };
    for (std::size_t n = 0; n < form.inputs.size(); ++n) {
      fill(inputs, own_inputs[b], form.inputs[n], n);
      own_gradients[b].add_room(mechanisms::shape_of(form.inputs[n].axes, own[b]));
    }
    for (std::size_t n = 0; n < form.results.size(); ++n) {
      fill(upstream, own_upstream[b], form.results[n], n);
      own_results[b].add_room(mechanisms::shape_of(form.results[n].axes, own[b]));
    }
    for (std::size_t n = 0; n < form.tokens.size(); ++n) {
      const auto at = places(form.tokens[n], own[b]);
      own_tokens[b].numbers.emplace_back();
      own_tokens[b].shapes.push_back(mechanisms::shape_of(form.tokens[n].axes, own[b]));
      for (const std::size_t place : at) {
        const Index token = random_token(form.tokens[n], own[b], 4, random);
        own_tokens[b].numbers.back().push_back(token);
        tokens.numbers[n][b * static_cast<std::size_t>(sequence_size(form.tokens[n])) + place] =
            token;
      }
    }
    const Sequence<T> alone = {own_inputs[b].template views<const T>(),
                               own_tokens[b].template views<const Index>()};
    mechanism.forward(alone, own_results[b].template views<T>(), 1);
    mechanism.backward(alone, own_upstream[b].template views<const T>(),
                       own_gradients[b].template views<T>(), 1);
  }
  const Batch<T> batch = {count, padded, inputs.template views<const T>(),
                          tokens.template views<const Index>(),
                          lengths.template views<const Index>()};
  forward(mechanism, batch, results.template views<T>(), threads);
  backward(mechanism, batch, upstream.template views<const T>(), gradients.template views<T>(),
           threads);
  const auto compare = [&](const TensorForm& one, const std::vector<T>& found,
                           const std::vector<Stored<T>>& alone, std::size_t n) {
    CAPTURE(one.name);
    if (is_shared(one)) {
      for (std::size_t i = 0; i < found.size(); ++i) {
        double sum = 0;
        double magnitude = 0;
        for (const auto& sequence : alone) {
          sum += static_cast<double>(sequence.numbers[n][i]);
          magnitude += std::abs(static_cast<double>(sequence.numbers[n][i]));
        }
        // The order of the sum, in float64, is free.
        const double roundings =
            std::numeric_limits<double>::epsilon() * static_cast<double>(alone.size()) +
            std::numeric_limits<T>::epsilon();
        CHECK(std::abs(static_cast<double>(found[i]) - sum) <=
              roundings * std::max(magnitude, 1e-300));
      }
      return;
    }
    for (std::size_t b = 0; b < own.size(); ++b) {
      const auto size = static_cast<std::size_t>(sequence_size(one));
      std::vector<T> expected(size, static_cast<T>(one.padding));
      const auto at = places(one, own[b]);
      for (std::size_t i = 0; i < at.size(); ++i) expected[at[i]] = alone[b].numbers[n][i];
      const std::vector<T> part(found.begin() + static_cast<std::ptrdiff_t>(b * size),
                                found.begin() + static_cast<std::ptrdiff_t>((b + 1) * size));
      CHECK(part == expected);
    }
  };
  for (std::size_t n = 0; n < form.results.size(); ++n) {
    compare(form.results[n], results.numbers[n], own_results, n);
  }
  for (std::size_t n = 0; n < form.inputs.size(); ++n) {
    compare(form.inputs[n], gradients.numbers[n], own_gradients, n);
  }
}

}  // namespace attn::testing
