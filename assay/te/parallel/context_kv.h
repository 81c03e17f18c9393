// Keys and values of one rank as they travel to others: themselves, or codes
// and scales.
#pragma once

#include <optional>

#include "assay/te/parallel/context_problem.h"
#include "assay/te/parallel/packet.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

struct KeysAndValues {
  Tensor k, v;  // [tokens, heads, dim]
};

class TravellingKv {
 public:
  // As they are.
  explicit TravellingKv(const ContextProblem& p) : p_(p) {}
  // Quantised now, row-wise; the quantiser's usage stays what it was.
  TravellingKv(const ContextProblem& p, Quantizer& quantizer);
  // Quantised before, by the constructor above.
  TravellingKv(const ContextProblem& p, const QuantizedTensor& k,
               const QuantizedTensor& v);

  // What this rank sends; all ranks' packets have the same layout.
  Packet packet() const;
  // What any rank sent.
  KeysAndValues decode(const Packet& packet) const;

  const std::optional<QuantizedTensor>& k() const { return k_; }
  const std::optional<QuantizedTensor>& v() const { return v_; }

 private:
  const ContextProblem& p_;
  std::optional<QuantizedTensor> k_, v_;
};

}  // namespace assay::te
