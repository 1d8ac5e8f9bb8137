// oneDNN: matrix product, softmax, matrix product, with the weights of a block in memory. Softmax
// runs over the last axis of plain layouts, since oneDNN has no fast code for other axes and none
// for a product with a transposed result. dnas therefore computes its scores as keys x queries from
// the start, and its output as channels x queries, adding up blocks of keys.

#include <algorithm>
#include <cmath>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "worker.hpp"

namespace {

using dnnl::memory;
using Desc = memory::desc;
using Tag = memory::format_tag;
constexpr auto f32 = memory::data_type::f32;

class Attention {
 public:
  explicit Attention(const bench::Problem& problem)
      : dnas_(problem.scheme == "dnas"),
        heads_(problem.heads),
        length_(problem.length),
        depth_(problem.depth),
        // A column of ones next to the values yields the row sums.
        width_(problem.depth + (dnas_ ? 1 : 0)),
        q_(problem.input("q")),
        k_(problem.input("k")),
        v_(static_cast<std::size_t>(heads_ * length_ * width_), 1.0F),
        product_(dnas_ ? v_.size() : 0),
        out_(q_.size()) {
    const std::vector<float> v = problem.input("v");
    for (long row = 0; row < heads_ * length_; ++row) {
      std::copy_n(v.data() + row * depth_, depth_, v_.data() + row * width_);
    }
  }

  /// Some heads at a time, and some queries (dnas: keys) of each.
  void compute(long heads, long rows) {
    const Steps& steps = made(heads, rows);
    std::fill(product_.begin(), product_.end(), 0.0F);
    for (long head = 0; head < heads_; head += heads) {
      for (long row = 0; row < length_; row += rows) run(steps, head, row);
    }
    if (dnas_) divide();
  }

  const std::vector<float>& out() const { return out_; }

 private:
  struct Steps {
    Desc left, right, scores, values, result;
    dnnl::matmul first;
    dnnl::softmax_v2_forward softmax;
    dnnl::matmul second;
    memory weights;
  };

  const Steps& made(long heads, long rows) {
    const long key = heads * length_ + rows;
    const auto found = steps_.find(key);
    if (found != steps_.end()) return found->second;
    Steps s;
    s.left = Desc({heads, rows, depth_}, f32, Tag::abc);
    s.right = Desc({heads, depth_, length_}, f32, Tag::acb);
    s.scores = Desc({heads, rows, length_}, f32, Tag::abc);
    s.values = dnas_ ? Desc({heads, width_, rows}, f32, Tag::acb)
                     : Desc({heads, length_, width_}, f32, Tag::abc);
    s.result = Desc({heads, dnas_ ? width_ : rows, dnas_ ? length_ : width_}, f32, Tag::abc);
    dnnl::primitive_attr scale;
    scale.set_output_scales(0, {1 / std::sqrt(static_cast<float>(depth_))});
    using Product = dnnl::matmul;
    s.first = Product(Product::primitive_desc({s.left, s.right, s.scores}, scale, engine_));
    using Softmax = dnnl::softmax_v2_forward;
    s.softmax =
        Softmax(Softmax::primitive_desc({dnnl::prop_kind::forward_inference,
                                         dnnl::algorithm::softmax_accurate, s.scores, s.scores, 2},
                                        engine_));
    dnnl::post_ops sum;
    if (dnas_) sum.append_sum();
    dnnl::primitive_attr add;
    add.set_post_ops(sum);
    const Desc& first = dnas_ ? s.values : s.scores;
    const Desc& second = dnas_ ? s.scores : s.values;
    s.second = Product(Product::primitive_desc({first, second, s.result}, add, engine_));
    s.weights = memory(s.scores, engine_);
    return steps_.emplace(key, s).first->second;
  }

  void run(const Steps& s, long head, long row) {
    const auto at = [&](std::vector<float>& values, long width, long first) {
      return values.data() + (head * length_ + first) * width;
    };
    std::vector<float>& rows = dnas_ ? k_ : q_;
    std::vector<float>& cols = dnas_ ? q_ : k_;
    memory weights = s.weights;
    s.first.execute(stream_, {{DNNL_ARG_SRC, memory(s.left, engine_, at(rows, depth_, row))},
                              {DNNL_ARG_WEIGHTS, memory(s.right, engine_, at(cols, depth_, 0))},
                              {DNNL_ARG_DST, weights}});
    s.softmax.execute(stream_, {{DNNL_ARG_SRC, weights}, {DNNL_ARG_DST, weights}});
    const memory values(s.values, engine_, at(v_, width_, dnas_ ? row : 0));
    float* result = dnas_ ? at(product_, width_, 0) : at(out_, width_, row);
    s.second.execute(stream_, {{DNNL_ARG_SRC, dnas_ ? values : weights},
                               {DNNL_ARG_WEIGHTS, dnas_ ? weights : values},
                               {DNNL_ARG_DST, memory(s.result, engine_, result)}});
    stream_.wait();
  }

  void divide() {
#pragma omp parallel for collapse(2)
    for (long head = 0; head < heads_; ++head) {
      for (long first = 0; first < length_; first += 16) {
        const float* from = product_.data() + head * length_ * width_;
        float* to = out_.data() + head * length_ * depth_;
        for (long n = 0; n < depth_; ++n) {
          for (long row = first; row < std::min(first + 16, length_); ++row) {
            to[row * depth_ + n] = from[n * length_ + row] / from[depth_ * length_ + row];
          }
        }
      }
    }
  }

  bool dnas_;
  long heads_, length_, depth_, width_;
  std::vector<float> q_, k_, v_, product_, out_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unordered_map<long, Steps> steps_;
};

bench::Contest prepare(const bench::Problem& problem) {
  const auto attention = std::make_shared<Attention>(problem);
  bench::Contest contest;
  contest.answers = {{"out", &attention->out()}};
  const long heads = problem.heads;
  const long length = problem.length;
  const auto offer = [&](const std::string& name, long at_once, long rows) {
    contest.variants.push_back(
        {name, [attention, at_once, rows] { attention->compute(at_once, rows); }});
  };
  offer("head by head", 1, length);
  if (heads > 1 && length <= 4096) offer("all heads at once", heads, length);
  for (const long rows : {256L, 512L}) {
    if (length % rows == 0) offer("blocks of " + std::to_string(rows), 1, rows);
  }
  return contest;
}

}  // namespace

int main() { return bench::serve(prepare); }
