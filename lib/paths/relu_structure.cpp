#include "paths/relu_structure.hpp"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <utility>
#include <vector>

namespace attn {
namespace relu_structure {

using Whole = boost::multiprecision::cpp_int;

struct Entry {
  Index weight;
  Whole number;
};

// By weight, ascending; no zeros.
using Row = std::vector<Entry>;

// a · row − b · other
static Row combined(const Whole& a, const Row& row, const Whole& b, const Row& other) {
  Row sum;
  sum.reserve(row.size() + other.size());
  auto r = row.begin();
  auto o = other.begin();
  while (r != row.end() || o != other.end()) {
    if (o == other.end() || (r != row.end() && r->weight < o->weight)) {
      sum.push_back({r->weight, a * r->number});
      ++r;
    } else if (r == row.end() || o->weight < r->weight) {
      sum.push_back({o->weight, -b * o->number});
      ++o;
    } else {
      Whole number = a * r->number - b * o->number;
      if (number != 0) sum.push_back({r->weight, std::move(number)});
      ++r;
      ++o;
    }
  }
  return sum;
}

static void divide_by_common_factor(Row& row) {
  Whole factor = 0;
  for (const Entry& entry : row) {
    factor = gcd(factor, entry.number);
    if (factor == 1) return;
  }
  for (Entry& entry : row) entry.number /= factor;
}

}  // namespace relu_structure

class ReluPathRank::Impl {
  using Entry = relu_structure::Entry;
  using Row = relu_structure::Row;

 public:
  explicit Impl(const ReluLayers& layers)
      : layers_(layers), pivot_of_(static_cast<std::size_t>(layers.weights()), -1) {}

  bool add(const Index* nodes) {
    Row row;
    Index first = 0;
    for (Index l = 1; l <= layers_.count(); ++l) {
      row.push_back({first + nodes[l - 1] * layers_.size(l) + nodes[l], 1});
      first += layers_.size(l - 1) * layers_.size(l);
    }
    // With the last weight leading, paths in the order of the basis need few eliminations each.
    while (!row.empty()) {
      Index& pivot = pivot_of_[static_cast<std::size_t>(row.back().weight)];
      if (pivot < 0) {
        pivot = static_cast<Index>(rows_.size());
        row.shrink_to_fit();
        entries_ += static_cast<std::int64_t>(row.size());
        rows_.push_back(std::move(row));
        return true;
      }
      const Row& other = rows_[static_cast<std::size_t>(pivot)];
      row = relu_structure::combined(other.back().number, row, row.back().number, other);
      relu_structure::divide_by_common_factor(row);
    }
    return false;
  }

  Index rank() const { return static_cast<Index>(rows_.size()); }

  std::int64_t bytes() const {
    constexpr auto entry_bytes = static_cast<std::int64_t>(sizeof(Entry));
    constexpr auto row_bytes = static_cast<std::int64_t>(sizeof(Row));
    // The list of rows grows by doubling.
    return ReluPathRank::bytes(layers_) + entry_bytes * entries_ + 2 * row_bytes * rank();
  }

 private:
  const ReluLayers& layers_;
  std::vector<Index> pivot_of_;  // the row that leads with a weight; −1: none
  std::vector<Row> rows_;
  std::int64_t entries_ = 0;
};

ReluPathRank::ReluPathRank(const ReluLayers& layers) : impl_(std::make_unique<Impl>(layers)) {}
ReluPathRank::~ReluPathRank() = default;

bool ReluPathRank::add(const Index* nodes) { return impl_->add(nodes); }
Index ReluPathRank::rank() const { return impl_->rank(); }
std::int64_t ReluPathRank::bytes() const { return impl_->bytes(); }
std::int64_t ReluPathRank::bytes(const ReluLayers& layers) {
  return layers.weights() * static_cast<std::int64_t>(sizeof(Index));
}

}  // namespace attn
