// What something keeps between its forward and its backward, whatever type it
// has: operations and modules of many kinds in one list.
#pragma once

#include <memory>
#include <utility>

#include "assay/base/error.h"
#include "assay/te/modules/module.h"

namespace assay::te::ops {

// Holds nothing or one value, whose type has
//   void visit_tensors(const TensorVisitor&) const
class SavedState {
 public:
  // A fresh T in place of what was held.
  template <typename T>
  T& emplace() {
    auto fresh = std::make_unique<Holder<T>>();
    T& value = fresh->value;
    held_ = std::move(fresh);
    return value;
  }
  // Throws Error{kUsage} where another type, or nothing, is held: a backward
  // without its forward, or a second one.
  template <typename T>
  T& as() {
    auto* holder = dynamic_cast<Holder<T>*>(held_.get());
    if (!holder)
      throw Error(Code::kUsage,
                  "backward: context: not filled by the forward of this "
                  "operation, or used up");
    return holder->value;
  }
  void reset() { held_.reset(); }
  void visit_tensors(const TensorVisitor& visit) const {
    if (held_) held_->visit(visit);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual void visit(const TensorVisitor& visit) const = 0;
  };
  template <typename T>
  struct Holder : Base {
    T value;
    void visit(const TensorVisitor& visit) const override {
      value.visit_tensors(visit);
    }
  };
  std::unique_ptr<Base> held_;
};

}  // namespace assay::te::ops
