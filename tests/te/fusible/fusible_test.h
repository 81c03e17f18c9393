// What tests of operations share: one pass through a Sequential with all its
// results, and numeric derivatives.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/te/fusible/sequential.h"
#include "tests/te/modules/module_test.h"

namespace assay::te::ops {

struct Pass {
  Tensor y, dx;
  std::vector<Tensor> extra_outputs, extra_grads;
  std::vector<Tensor> parameter_grads;  // in the order of parameters()
};

inline Pass run(Sequential& model, const Tensor& x, const Tensor& dy,
                const std::vector<Tensor>& extra = {},
                const std::vector<Tensor>& extra_dy = {}) {
  model.zero_grad();
  Sequential::Context context;
  Pass pass;
  SequentialOutput out = model.forward(x, extra, &context);
  pass.y = std::move(out.output);
  pass.extra_outputs = std::move(out.extra);
  SequentialGrads grads = model.backward(dy, extra_dy, context);
  pass.dx = std::move(grads.input);
  pass.extra_grads = std::move(grads.extra);
  for (const NamedParameter& p : model.parameters())
    pass.parameter_grads.push_back(*p.parameter->grad);
  return pass;
}

inline void expect_values(const Tensor& t, const std::vector<double>& values,
                          double tolerance, const std::string& what) {
  ASSERT_EQ(t.numel(), static_cast<std::int64_t>(values.size())) << what;
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(at(t, static_cast<std::int64_t>(i)), values[i],
                tolerance * std::max(1.0, std::abs(values[i])))
        << what << " " << i;
}

inline void expect_same_pass(const Pass& a, const Pass& b,
                             const std::string& what) {
  const auto same = [&](const std::vector<Tensor>& p,
                        const std::vector<Tensor>& q, const char* of) {
    ASSERT_EQ(p.size(), q.size()) << what << " " << of;
    for (std::size_t i = 0; i < p.size(); ++i)
      EXPECT_TRUE(same_bits(p[i], q[i])) << what << " " << of << " " << i;
  };
  EXPECT_TRUE(same_bits(a.y, b.y)) << what << " y";
  EXPECT_TRUE(same_bits(a.dx, b.dx)) << what << " dx";
  same(a.extra_outputs, b.extra_outputs, "extra output");
  same(a.extra_grads, b.extra_grads, "extra gradient");
  same(a.parameter_grads, b.parameter_grads, "parameter gradient");
}

}  // namespace assay::te::ops
