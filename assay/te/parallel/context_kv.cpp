#include "assay/te/parallel/context_kv.h"

#include "assay/te/check.h"

namespace assay::te {
namespace {

// Heads side by side: blocks of scales run over them.
Tensor as_matrix(const Tensor& x) {
  const Shape& s = x.shape();
  return reshaped(x, {s[0], s[1] * s[2]});
}

bool is_there(const Tensor& t) {
  return t.view.data != nullptr || t.numel() == 0;
}

// Calls visit(tensor) for what a quantised matrix consists of.
template <typename Data, typename Visit>
void for_each_tensor(Data& q, const Visit& visit) {
  for (auto* t : {&q.data, &q.scale_inv, &q.amax})
    if (is_there(*t)) visit(*t);
}

Tensor decoded(const QuantizedData& q, const Tensor& like) {
  const Shape& s = like.shape();
  return reshaped(dequantize(q, {s[0], s[1] * s[2]}, like.dtype()), s);
}

void require_rowwise(const ContextProblem& p, const char* name,
                     const QuantizedTensor& q, const Tensor& like) {
  const Shape& s = like.shape();
  require(q.rowwise.has_value() && q.shape == Shape{s[0], s[1] * s[2]}, p.op,
          name, "another quantised tensor", "what forward returned");
}

}  // namespace

TravellingKv::TravellingKv(const ContextProblem& p, Quantizer& quantizer)
    : p_(p) {
  const Usage usage = quantizer.usage();
  quantizer.set_usage({.rowwise = true, .columnwise = false});
  k_ = quantizer.quantize(as_matrix(p.k));
  v_ = quantizer.quantize(as_matrix(p.v));
  quantizer.set_usage(usage);
}

TravellingKv::TravellingKv(const ContextProblem& p, const QuantizedTensor& k,
                           const QuantizedTensor& v)
    : p_(p), k_(k), v_(v) {
  require_rowwise(p, "k", k, p.k);
  require_rowwise(p, "v", v, p.v);
}

Packet TravellingKv::packet() const {
  if (!k_) return Packet::of(std::vector<Tensor>{p_.k, p_.v});
  std::vector<Tensor> tensors;
  const auto add = [&](const Tensor& t) { tensors.push_back(t); };
  for_each_tensor(*k_->rowwise, add);
  for_each_tensor(*v_->rowwise, add);
  return Packet::of(tensors);
}

KeysAndValues TravellingKv::decode(const Packet& packet) const {
  if (!k_) return {packet.part(0), packet.part(1)};
  QuantizedData k = *k_->rowwise, v = *v_->rowwise;
  std::size_t next = 0;
  const auto take = [&](Tensor& t) { t = packet.part(next++); };
  for_each_tensor(k, take);
  for_each_tensor(v, take);
  return {decoded(k, p_.k), decoded(v, p_.v)};
}

}  // namespace assay::te
