#include "tensor/batch.hpp"

#include "attnkit/error.hpp"

namespace attn {

LeadingMap::LeadingMap(const Shape& result, const Shape& operand, bool grouped,
                       const std::string& what)
    : result_(result), group_(result.size(), 1), stride_(result.size(), 0) {
  const auto refuse = [&] {
    throw Error(Failure::input, what + " has leading axes " + to_string(operand) +
                                    ", which do not broadcast to " + to_string(result));
  };
  if (operand.size() > result.size()) refuse();
  const std::size_t absent = result.size() - operand.size();
  Index blocks = 1;
  for (std::size_t axis = result.size(); axis-- > absent;) {
    const Index have = operand[axis - absent];
    const Index want = result[axis];
    const bool last = axis + 1 == result.size();
    if (have == want) {
      stride_[axis] = blocks;
    } else if (have == 1) {
      stride_[axis] = 0;
    } else if (grouped && last && have > 0 && want % have == 0) {
      group_[axis] = want / have;
      stride_[axis] = blocks;
    } else {
      refuse();
    }
    blocks *= have;
  }
}

Index LeadingMap::operator()(Index problem) const {
  Index block = 0;
  for (std::size_t axis = result_.size(); axis-- > 0;) {
    block += problem % result_[axis] / group_[axis] * stride_[axis];
    problem /= result_[axis];
  }
  return block;
}

Shape result_axes(const Shape& q_leading, const Shape& k_leading, const std::string& q_name,
                  const std::string& k_name) {
  Shape stretched = k_leading;
  if (!q_leading.empty() && !k_leading.empty()) {
    const Index query_heads = q_leading.back();
    const Index key_heads = k_leading.back();
    if (key_heads > 0 && query_heads % key_heads == 0) {
      stretched.back() = query_heads;
    } else if (query_heads != 1 && query_heads != key_heads) {
      throw Error(Failure::input, q_name + " has " + std::to_string(query_heads) + " heads, " +
                                      k_name + " has " + std::to_string(key_heads) +
                                      ": the former must be a multiple of the latter");
    }
  }
  Shape result;
  if (!broadcast(q_leading, stretched, result)) {
    throw Error(Failure::input, q_name + " has leading axes " + to_string(q_leading) + ", " +
                                    k_name + " has " + to_string(k_leading) +
                                    ": they do not broadcast");
  }
  return result;
}

void require_same_heads(const std::vector<HeadsOf>& arrays) {
  const HeadsOf* several = nullptr;  // the first with more heads than one
  for (const HeadsOf& array : arrays) {
    if (array.leading.empty() || array.leading.back() == 1) continue;
    if (several == nullptr) several = &array;
    if (array.leading.back() == several->leading.back()) continue;
    throw Error(Failure::input, array.name + " has leading axes " + to_string(array.leading) +
                                    ", " + several->name + " has " + to_string(several->leading) +
                                    ": keys and values need as many heads, or one");
  }
}

}  // namespace attn
