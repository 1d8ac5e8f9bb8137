#include "head/gradient_operands.hpp"

#include <utility>

#include "scheme/scheme_description.hpp"

namespace attn {
namespace {

// With a norm over all heads, the weights of all of them have their gradient together.
std::optional<Operand> of_all_heads(const std::optional<Operand>& part, Index heads,
                                    const Shape& leading) {
  if (!part) return part;
  Operand whole = *part;
  const bool is_vector = whole.dataset.shape().size() == whole.leading.size() + 1;
  (is_vector ? whole.cols : whole.rows) *= heads;
  whole.leading.back() = 1;
  whole.block = LeadingMap(leading, whole.leading, false, whole.dataset.address());
  whole.heads = HeadAxis::whole;
  return whole;
}

template <class T>
class List {
 public:
  using Targets = HeadGradientTargets<T>;
  using View = MatrixView<T>;
  using Own = TileRange;

  template <class Place>
  void add(const std::string& name, const std::optional<Operand>& operand, Place place) {
    if (operand) all.push_back({name, operand, std::move(place)});
  }

  void add_vectors(const AttentionSources& of) {
    const auto add_input = [&](const char* name, const std::optional<Vectors>& from, auto place) {
      if (from) add(name, from->input, place);
    };
    add_input("q", of.q, [](Targets& to, View v, const Own& own) { to.q = by_query(v, own); });
    add_input("k", of.k, [](Targets& to, View v, const Own& own) { to.k = by_key(v, own); });
    add_input("v", of.v, [](Targets& to, View v, const Own& own) { to.v = by_key(v, own); });
  }

  void add_projections(const AttentionSources& of) {
    const bool has_y = of.has_y();
    add("x", of.q->input, [has_y](Targets& to, View v, const Own& own) {
      to.projections.x = by_query(v, own);
      if (!has_y) to.projections.y = by_key(v, own);
    });
    if (has_y) {
      add("y", of.k->input,
          [](Targets& to, View v, const Own& own) { to.projections.y = by_key(v, own); });
    }
    const auto place = [](MatrixView<T> HeadProjectionTargets<T>::*target) {
      return [target](Targets& to, View v, const Own&) { to.projections.*target = v; };
    };
    using Projections = HeadProjectionTargets<T>;
    const auto whole = [&](const std::optional<Vectors>& from, const std::optional<Operand>& part) {
      return from->over_heads() ? of_all_heads(part, from->heads(), of.leading) : part;
    };
    add("wq", whole(of.q, of.q->weights), place(&Projections::wq));
    add("wk", whole(of.k, of.k->weights), place(&Projections::wk));
    add("bq", whole(of.q, of.q->bias), place(&Projections::bq));
    add("bk", whole(of.k, of.k->bias), place(&Projections::bk));
    const auto add_norm = [&](const std::optional<Vectors>& from, const std::string& side,
                              auto weights, auto bias) {
      if (!from->norm) return;
      const std::string name = side + (from->transform->norm->centred ? "_layer_norm" : "_norm");
      add(name, from->norm, place(weights));
      add(name + "_bias", from->norm_bias, place(bias));
    };
    add_norm(of.q, "q", &Projections::q_norm, &Projections::q_norm_bias);
    add_norm(of.k, "k", &Projections::k_norm, &Projections::k_norm_bias);
    if (!of.v) return;
    add("wv", of.v->weights, place(&Projections::wv));
    add("bv", of.v->bias, place(&Projections::bv));
  }

  std::vector<GradientOperand<T>> all;
};

}  // namespace

template <class T>
std::vector<GradientOperand<T>> gradient_operands(const AttentionSources& sources, Scheme scheme,
                                                  const std::optional<Operand>& hybrid) {
  using Targets = HeadGradientTargets<T>;
  using View = MatrixView<T>;
  using Own = TileRange;
  List<T> list;
  if (sources.q && sources.q->weights) {
    list.add_projections(sources);
  } else {
    list.add_vectors(sources);
  }
  list.add("bias", sources.bias,
           [](Targets& to, View v, const Own& own) { to.bias = by_pair(v, own); });
  list.add("preference", sources.preference,
           [](Targets& to, View v, const Own& own) { to.preference = by_pair(v, own); });
  list.add("cost", sources.cost, [](Targets& to, View v, const Own& own) {
    to.cost = by_pair(v, {own.col0, own.cols, own.col0, own.cols});
  });
  list.add("rel_bias", sources.rel_bias,
           [](Targets& to, View v, const Own&) { to.relative_bias = v; });
  const std::size_t count = sources.energy_operands.size();
  for (std::size_t n = 0; n < count; ++n) {
    list.add(sources.energy().operands()[n].name, sources.energy_operands[n],
             [n, count](Targets& to, View v, const Own&) {
               to.energy.resize(count);
               to.energy[n] = v;
             });
  }
  list.add("sink", sources.sink, [](Targets& to, View v, const Own&) { to.sink = v.data; });
  list.add("gate", sources.gate, [](Targets& to, View v, const Own& own) {
    to.gate = v.rows > 1 ? by_query(v, own) : v;
  });
  if (description_of(scheme).is_mixture()) {
    list.all.push_back(
        {"hybrid", hybrid, [](Targets& to, View v, const Own&) { to.hybrid = v.data; }});
  }
  return std::move(list.all);
}

template std::vector<GradientOperand<float>> gradient_operands(const AttentionSources&, Scheme,
                                                               const std::optional<Operand>&);
template std::vector<GradientOperand<double>> gradient_operands(const AttentionSources&, Scheme,
                                                                const std::optional<Operand>&);

}  // namespace attn
