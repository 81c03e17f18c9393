// Checks that every module goes through: against the fp64 reference, against
// finite differences of it, and what its messages say.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/te/modules/linear_core.h"
#include "tests/te/modules/module_test.h"

namespace assay::te {

struct PassResult {
  Tensor y, dx;
};

inline const Tensor& output_of(const Tensor& y) { return y; }
template <typename Output>
const Tensor& output_of(const Output& out) {
  return out.output;
}

// Forward and backward; gradients stay in the parameters. `recipe` null: none.
template <typename M, typename... Args>
PassResult train(M& module, const Tensor& x, const Tensor& dy,
                 const Recipe* recipe, const Args&... args) {
  typename M::Context context;
  PassResult r;
  {
    std::optional<Autocast> autocast;
    if (recipe) autocast.emplace(*recipe);
    r.y = output_of(module.forward(x, &context, args...));
  }
  r.dx = module.backward(dy, context);
  return r;
}

// What a bf16 module may differ from its reference by, relative, root mean
// square, where `intermediates` tensors between its GEMMs are rounded to bf16
// and then quantised.
//
// The output's own rounding: 2^-9 where fp32 and fp64 round apart (an upper
// bound: they do so for few elements). An intermediate differs by the error d
// of fp32 sums, under 2^-20; it rounds to another bf16 value, 2^-8 away, for a
// share d / 2^-8 = 2^-12 of elements, which costs 2^-8 sqrt(2^-12) = 2^-14.
// Each of those may make another code, one step or sqrt(12) operand_error away:
// at the most operand_error sqrt(12) sqrt(2^-12) = operand_error 2^-4.2.
// What is observed is 10 to 1000 times less; but tensors here have 64 to 8192
// elements, of which one alone, 2.4 deviations large, that rounds apart on some
// instruction set is 2e-4 to 1e-3 of the whole.
inline double bf16_budget(int intermediates, double operand_error) {
  return 0x1p-9 + intermediates * (0x1p-14 + operand_error * 0x1p-4);
}

template <typename M>
void expect_gradients_near(M& fast, M& slow, double bound) {
  const auto a = fast.parameters(), b = slow.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i].parameter->grad && b[i].parameter->grad) << a[i].name;
    EXPECT_LT(distance(*a[i].parameter->grad, *b[i].parameter->grad), bound)
        << a[i].name;
  }
}

template <typename M>
void expect_same_gradients(M& one, M& other) {
  const auto a = one.parameters(), b = other.parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i].parameter->grad && b[i].parameter->grad) << a[i].name;
    EXPECT_TRUE(same_bits(*a[i].parameter->grad, *b[i].parameter->grad))
        << a[i].name;
  }
}

// Steps of two modules with the same parameters, one on one thread and one on
// four, give the same bits under every recipe.
template <typename M, typename... Args>
void expect_same_for_any_threads(M& one, M& four, const Tensor& x,
                                 const Tensor& dy, const Args&... args) {
  copy_parameters(one, four);
  for (const NamedRecipe& r : all_recipes()) {
    set_thread_count(1);
    const PassResult a = train(one, x, dy, &r.recipe, args...);
    set_thread_count(4);
    const PassResult b = train(four, x, dy, &r.recipe, args...);
    EXPECT_TRUE(same_bits(a.y, b.y) && same_bits(a.dx, b.dx)) << r.name;
    expect_same_gradients(one, four);
  }
  set_thread_count(0);
}

// `make(dtype, device)` gives a unique_ptr to a module. Without a recipe in
// bf16 and fp32, and under every recipe, two steps of each: the second of
// delayed scaling has real scales.
template <typename Make, typename... Args>
void expect_agrees_with_reference(const Make& make, const Shape& in,
                                  const Shape& out, int intermediates,
                                  const Args&... args) {
  struct Case {
    std::string name;
    DType dtype;
    const Recipe* recipe;
    double bound;
  };
  const std::vector<NamedRecipe> recipes = all_recipes();
  std::vector<Case> cases = {
      {"bf16", DType::kBF16, nullptr, bf16_budget(intermediates, 0)},
      // fp32 sums of at most a few hundred terms, three GEMMs deep.
      {"fp32", DType::kF32, nullptr, 0x1p-18}};
  for (const NamedRecipe& r : recipes)
    cases.push_back({r.name, DType::kBF16, &r.recipe,
                     bf16_budget(intermediates, r.operand_error)});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    auto fast = make(c.dtype, Device::kCpu);
    auto slow = make(c.dtype, Device::kReference);
    copy_parameters(*fast, *slow);
    for (int step = 0; step < 2; ++step) {
      const Tensor x = normal_tensor(c.dtype, in, 11 + step);
      const Tensor dy = normal_tensor(c.dtype, out, 21 + step, 1e-2);
      fast->zero_grad();
      slow->zero_grad();
      const PassResult a = train(*fast, x, dy, c.recipe, args...);
      const PassResult b =
          train(*slow, on_reference(x), on_reference(dy), c.recipe, args...);
      EXPECT_LT(distance(a.y, b.y), c.bound);
      EXPECT_LT(distance(a.dx, b.dx), c.bound);
      expect_gradients_near(*fast, *slow, c.bound);
    }
  }
}

// Central differences of <r, y> for a few elements of x and of every
// parameter, on the fp64 device with fp32 storage: h^2 of the third derivative
// beside the rounding of y over h.
template <typename M, typename... Args>
void expect_finite_differences(M& module, Tensor x, const Shape& out,
                               const Args&... args) {
  x = on_reference(x);
  const Tensor r = on_reference(normal_tensor(DType::kF32, out, 99));
  module.zero_grad();
  const Tensor dx = train(module, x, r, nullptr, args...).dx;
  const auto loss = [&] {
    const auto result = module.forward(x, nullptr, args...);
    const Tensor& y = output_of(result);
    double sum = 0;
    for (std::int64_t i = 0; i < y.numel(); ++i) sum += at(y, i) * at(r, i);
    return sum;
  };
  const auto check = [&](Tensor& values, const Tensor& grad,
                         const std::string& name) {
    const double h = 0x1p-7;
    double scale = 0;
    for (std::int64_t i = 0; i < grad.numel(); ++i)
      scale = std::max(scale, std::abs(at(grad, i)));
    const std::int64_t step = std::max<std::int64_t>(1, values.numel() / 7);
    for (std::int64_t i = 0; i < values.numel(); i += step) {
      float& v = values.mutable_data<float>()[i];
      const float before = v;
      v = before + static_cast<float>(h);
      const double up = loss(), above = v;
      v = before - static_cast<float>(h);
      const double down = loss(), below = v;
      v = before;
      EXPECT_NEAR((up - down) / (above - below), at(grad, i), 2e-3 * scale)
          << name << " " << i;
    }
  };
  check(x, dx, "x");
  for (const NamedParameter& p : module.parameters())
    check(*p.parameter->value, *p.parameter->grad, p.name);
}

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

inline void expect_values(const Tensor& t, const std::vector<double>& values,
                          double tolerance, const char* name) {
  ASSERT_EQ(t.numel(), static_cast<std::int64_t>(values.size())) << name;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    EXPECT_NEAR(at(t, i), values[static_cast<std::size_t>(i)], tolerance)
        << name << " " << i;
}

}  // namespace assay::te
