// Sequential: operations and modules one after the other, neighbouring
// operations fused.
//
//   Sequential mlp(std::make_shared<LayerNorm>(Shape{1024}),
//                  std::make_shared<Linear>(1024, 4096),
//                  std::make_shared<GELU>(),
//                  std::make_shared<Linear>(4096, 1024));
//   Sequential::Context context;
//   Tensor y = mlp.forward(x, &context);
//   Tensor dx = mlp.backward(dy, context);
//
// Source: NVTE, ops.Sequential. Parameters are named as torch.nn.Sequential
// has them: "0.weight", "1.basic_ops.0.weight".
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "assay/te/fusible/operation_group.h"
#include "assay/te/fusible/plain_module.h"

namespace assay::te::ops {

// A module of a Sequential, and how it takes part.
class SequentialItem {
 public:
  template <std::derived_from<Module> M>
  SequentialItem(std::shared_ptr<M> module)  // NOLINT: implicit
      : module_(module) {
    if constexpr (std::derived_from<M, BasicOperation>) {
      operations_ = {module.get()};
    } else if constexpr (std::derived_from<M, CompoundOperation>) {
      operations_ = module->operations();
    } else {
      plain_ = std::make_shared<PlainModuleOf<M>>(*module);
    }
  }

  Module& module() const { return *module_; }
  const std::shared_ptr<Module>& shared() const { return module_; }
  // None for a plain module.
  const std::vector<BasicOperation*>& operations() const { return operations_; }
  PlainModule* plain() const { return plain_.get(); }

 private:
  std::shared_ptr<Module> module_;
  std::vector<BasicOperation*> operations_;
  std::shared_ptr<PlainModule> plain_;
};

struct SequentialOutput {
  Tensor output;
  std::vector<Tensor> extra;  // in the order of the operations
};
struct SequentialGrads {
  // No elements where the input needs none.
  Tensor input;
  // Of the extra inputs, in their order; a default Tensor for integers.
  std::vector<Tensor> extra;
};

class Sequential : public Module {
 public:
  struct Context {
    struct Segment {
      OperationGroup::Context group;
      SavedState plain;
    };
    std::vector<Segment> segments;
    bool input_requires_grad = true;
    void visit_tensors(const TensorVisitor& visit) const;
  };

  // The modules, shared; empty without.
  template <typename... M>
  explicit Sequential(std::shared_ptr<M>... modules)
      : Module("Sequential", "") {
    (items_.emplace_back(std::move(modules)), ...);
    regroup();
  }

  void append(SequentialItem item) { insert(items_.size(), std::move(item)); }
  // Before the i-th, i <= size(). Not between a forward and its backward.
  void insert(std::size_t i, SequentialItem item);
  // The i-th, taken out.
  SequentialItem pop(std::size_t i);
  std::size_t size() const { return items_.size(); }
  Module& operator[](std::size_t i) const { return item(i).module(); }

  // x through all modules; for a training pass `context` is filled. Extra
  // inputs belong to the operations in their order (AddExtraInput ...). The
  // short form is for rows without extra inputs and outputs. Throws
  // Error{kUsage} for another number of them.
  Tensor forward(const Tensor& x, Context* context = nullptr,
                 const LinearCall& call = {});
  SequentialOutput forward(const Tensor& x, std::span<const Tensor> extra,
                           Context* context = nullptr,
                           const LinearCall& call = {});
  // Gradients of the output and of the extra outputs; those of parameters are
  // added to them. `context` is used up.
  Tensor backward(const Tensor& dy, Context& context);
  SequentialGrads backward(const Tensor& dy, std::span<const Tensor> extra,
                           Context& context);

  // false: every operation by itself, quantising what it reads. For tests and
  // measurements; contexts do not depend on it.
  void set_fusion(bool on) { fuse_ = on; }
  // What a pass under `recipe` (null: without) runs, line by line:
  //   forward
  //     LayerNorm, quantises for BasicLinear
  //     ForwardLinearBiasActivation(BasicLinear, Bias, GELU)
  //   module Linear
  //   backward
  //   ...
  std::string plan(const Recipe* recipe = nullptr) const;

  int num_extra_inputs() const;
  int num_extra_outputs() const;

 private:
  // A group of operations or one plain module.
  struct Segment {
    std::optional<OperationGroup> group;
    std::size_t item = 0;
  };
  const SequentialItem& item(std::size_t i) const;
  void regroup();
  bool has_gradients(const Segment& segment) const;

  std::vector<SequentialItem> items_;
  std::vector<Segment> segments_;
  bool fuse_ = true;
};

}  // namespace assay::te::ops
