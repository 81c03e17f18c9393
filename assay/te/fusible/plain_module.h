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

// Of a module with
//   struct Context { void visit_tensors(const TensorVisitor&) const; };
//   Tensor forward(const Tensor& x, Context*[, const LinearCall&]);
//   Tensor backward(const Tensor& dy, Context&);
template <typename M>
class PlainModuleOf : public PlainModule {
 public:
  explicit PlainModuleOf(M& module) : module_(module) {}

  Tensor forward(const Tensor& x, SavedState* saved,
                 const LinearCall& call) override {
    using Context = typename M::Context;
    Context* context = saved ? &saved->emplace<Context>() : nullptr;
    if constexpr (requires { module_.forward(x, context, call); }) {
      return module_.forward(x, context, call);
    } else {
      return module_.forward(x, context);
    }
  }
  Tensor backward(const Tensor& dy, SavedState& saved) override {
    Tensor dx = module_.backward(dy, saved.template as<typename M::Context>());
    saved.reset();
    return dx;
  }

 private:
  M& module_;
};

}  // namespace assay::te::ops
