// A module that is no operation, in a row of operations: it is called as it
// is, and nothing is fused across it.
#pragma once

#include <memory>
#include <utility>

#include "assay/te/fusible/saved_state.h"
#include "assay/te/modules/linear_core.h"

namespace assay::te::ops {

class PlainModule {
 public:
  virtual ~PlainModule() = default;
  // `saved` null: inference.
  virtual Tensor forward(const Tensor& x, SavedState* saved,
                         const LinearCall& call) = 0;
  virtual Tensor backward(const Tensor& dy, SavedState& saved) = 0;
};

// What a module's forward or backward gives, as the one tensor that goes on.
// Throws Error{kUsage} where a norm's result came with the output: nobody in a
// row would take it.
inline Tensor only_tensor(Tensor result) { return result; }
template <typename Result>
requires requires(Result r) { r.output, r.layernorm_output; }
Tensor only_tensor(Result result) {
  if (result.layernorm_output)
    throw Error(Code::kUsage,
                "Sequential: layernorm_output: returned, expected a module "
                "that gives its output alone");
  return std::move(result.output);
}
template <typename Result>
requires requires(Result r) { r.d_hidden_states; }
Tensor only_tensor(Result result) { return std::move(result.d_hidden_states); }

// Of a module with
//   struct Context { void visit_tensors(const TensorVisitor&) const; };
//   Tensor forward(const Tensor& x, Context*[, const LinearCall&]);
//   Tensor backward(const Tensor& dy, Context&);
// or with results that only_tensor() takes, such as LayerNormMLP's and
// TransformerLayer's.
template <typename M>
class PlainModuleOf : public PlainModule {
 public:
  explicit PlainModuleOf(M& module) : module_(module) {}

  Tensor forward(const Tensor& x, SavedState* saved,
                 const LinearCall& call) override {
    using Context = typename M::Context;
    Context* context = saved ? &saved->emplace<Context>() : nullptr;
    if constexpr (requires { module_.forward(x, context, call); }) {
      return only_tensor(module_.forward(x, context, call));
    } else {
      return only_tensor(module_.forward(x, context));
    }
  }
  Tensor backward(const Tensor& dy, SavedState& saved) override {
    Tensor dx = only_tensor(
        module_.backward(dy, saved.template as<typename M::Context>()));
    saved.reset();
    return dx;
  }

 private:
  M& module_;
};

}  // namespace assay::te::ops
