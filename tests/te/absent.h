// Calls with a tensor that was never made in the place of every argument.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/core/tensor.h"

namespace assay::te {

using TensorCall = std::function<void(std::vector<Tensor>&)>;

inline void expect_usage_error(const std::string& what, const TensorCall& call,
                               std::vector<Tensor> arguments) {
  try {
    call(arguments);
    ADD_FAILURE() << what << ": no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage) << what << ": " << error.what();
  }
}

// `call` takes `good` but for any of them that has no bytes: a Tensor{}, or one
// that has a shape and a dtype only. It must be an Error and never a crash.
inline void expect_absent_refused(const std::string& name,
                                  const std::vector<Tensor>& good,
                                  const TensorCall& call) {
  std::vector<Tensor> arguments = good;
  EXPECT_NO_THROW(call(arguments)) << name;
  for (std::size_t i = 0; i < good.size(); ++i) {
    arguments = good;
    arguments[i] = Tensor{};
    const std::string what = name + " " + std::to_string(i);
    SCOPED_TRACE(what);
    expect_usage_error(what + " Tensor{}", call, arguments);
    arguments[i] = good[i];
    arguments[i].view.data = nullptr;
    arguments[i].owner.reset();
    expect_usage_error(what + " without bytes", call, arguments);
  }
}

}  // namespace assay::te
