// The mechanisms of this library as a contender of tests/bench/run: float32, the weights of
// attention not asked for.
//
//     set lstmn       forward|backward T D E FOLDER    IntraAttention, energies as wide as states
//     (D) set coattention forward|backward M N L FOLDER    the encoder, words as wide as states (L)
//
// Inputs and answers stand under their names in FOLDER, gradients as grad_NAME. The loss depends on
// the first result: h, or encoding.

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "mechanisms/coattention.hpp"
#include "mechanisms/intra_attention.hpp"
#include "worker.hpp"

namespace {

using namespace attn;
using namespace attn::mechanisms;

struct State {
  std::unique_ptr<Mechanism<float>> mechanism;
  Sequence<float> sequence;
  Tensors<float> results, gradients;
  Tensors<const float> grad_results;
  std::vector<std::unique_ptr<std::vector<float>>> arrays;

  TensorView<float> add(const Shape& shape, std::vector<float> numbers) {
    arrays.push_back(std::make_unique<std::vector<float>>(std::move(numbers)));
    return {arrays.back()->data(), shape};
  }
};

std::size_t count_of(const Shape& shape) {
  Index count = 1;
  for (const Index length : shape) count *= length;
  return static_cast<std::size_t>(count);
}

bench::Contest prepare(const bench::Problem& problem) {
  const int threads = std::atoi(std::getenv("BENCH_THREADS"));
  const auto state = std::make_shared<State>();
  Sizes sizes;
  if (problem.scheme == "lstmn") {
    state->mechanism = IntraAttention::make<float>(Fusion::none);
    sizes = {
        {"T", problem.heads}, {"A", problem.length}, {"D", problem.length}, {"E", problem.depth}};
  } else {
    state->mechanism = Coattention::make<float>({});
    sizes = {
        {"M", problem.heads}, {"N", problem.length}, {"L", problem.depth}, {"E", problem.depth}};
  }
  const MechanismForm& form = state->mechanism->form();
  const bool backward = problem.direction == "backward";
  bench::Contest contest;
  const auto answer = [&](const std::string& name, const Shape& shape) {
    const auto made = state->add(shape, std::vector<float>(count_of(shape)));
    contest.answers.emplace_back(name, state->arrays.back().get());
    return made;
  };
  for (const TensorForm& input : form.inputs) {
    // The decoder of coattention is left out.
    const bool used = is_known(input.axes, sizes) && input.needed_with.empty() &&
                      input.name.find("decoder") == std::string::npos;
    if (!used) {
      state->sequence.inputs.emplace_back();
      state->gradients.emplace_back();
      continue;
    }
    const Shape shape = shape_of(input.axes, sizes);
    state->sequence.inputs.push_back(
        state->add(shape, problem.input<float>(input.name, static_cast<long>(count_of(shape)))));
    state->gradients.push_back(backward ? answer("grad_" + input.name, shape)
                                        : TensorView<float>());
  }
  state->sequence.tokens.resize(form.tokens.size());
  state->results.resize(form.results.size());
  state->grad_results.resize(form.results.size());
  const Shape shape = shape_of(form.results[0].axes, sizes);
  if (backward) {
    state->grad_results[0] =
        state->add(shape, problem.input<float>("grad_out", static_cast<long>(count_of(shape))));
  } else {
    state->results[0] = answer("out", shape);
  }
  contest.variants = {{"library", [state, backward, threads] {
                         if (backward) {
                           state->mechanism->backward(state->sequence, state->grad_results,
                                                      state->gradients, threads);
                         } else {
                           state->mechanism->forward(state->sequence, state->results, threads);
                         }
                       }}};
  return contest;
}

}  // namespace

int main() { return bench::serve(prepare); }
