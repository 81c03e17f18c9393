#include "assay/te/modules/fp8_padding.h"

#include "tests/te/modules/module_checks.h"

namespace assay::te {
namespace {

using Splits = std::vector<std::int64_t>;

TEST(Fp8Padding, AppendsRowsOfZerosToEachGroup) {
  Fp8Padding pad(3, 4);
  Fp8Unpadding unpad(3, 4);
  const Splits splits = {1, 0, 5};
  const Tensor x =
      filled(DType::kBF16, {6, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  Fp8Padding::Context context;
  const PaddedRows padded = pad.forward(x, &context, splits);
  EXPECT_EQ(padded.m_splits, (Splits{4, 0, 8}));
  expect_values(padded.rows, {1, 2, 0, 0,  0,  0,  0, 0, 3, 4, 5, 6,
                              7, 8, 9, 10, 11, 12, 0, 0, 0, 0, 0, 0},
                0, "padded");
  EXPECT_TRUE(same_bits(unpad.forward(padded.rows, nullptr, splits), x));
  EXPECT_TRUE(same_bits(pad.backward(padded.rows, context), x));
  Fp8Unpadding::Context back;
  unpad.forward(padded.rows, &back, splits);
  EXPECT_TRUE(same_bits(unpad.backward(x, back), padded.rows));
}

TEST(Fp8Padding, TakesTheAlignmentOfTheActiveRecipe) {
  Fp8Padding pad(1);
  const Tensor x = normal_tensor(DType::kBF16, {3, 2}, 1);
  const Splits splits = {3};
  const auto rows = [&] { return pad.forward(x, nullptr, splits).m_splits[0]; };
  EXPECT_EQ(rows(), 32);  // the default recipe is MXFP8
  const std::int64_t expected[] = {16, 16, 16, 32, 128};
  std::size_t i = 0;
  for (const NamedRecipe& r : all_recipes()) {
    Autocast autocast(r.recipe);
    EXPECT_EQ(rows(), expected[i++]) << r.name;
  }
}

TEST(Fp8Padding, CopiesNothingWhereNothingIsMissing) {
  Fp8Padding pad(2, 2);
  const Tensor x = normal_tensor(DType::kBF16, {4, 2}, 1);
  EXPECT_EQ(pad.forward(x, nullptr, Splits{2, 2}).rows.view.data, x.view.data);
  EXPECT_EQ(
      pad.forward(Tensor::zeros(DType::kBF16, {0, 2}), nullptr, Splits{0, 0})
          .rows.shape(),
      (Shape{0, 2}));
}

TEST(Fp8Padding, NamesWhatItCannotTake) {
  EXPECT_EQ(message_of([] { Fp8Padding bad(2, 0); }),
            "Fp8Padding: align_size: 0, expected 1 or more");
  Fp8Padding pad(2, 4);
  const Tensor x = Tensor::zeros(DType::kBF16, {4, 2});
  EXPECT_EQ(message_of([&] { pad.forward(x, nullptr, Splits{4}); }),
            "Fp8Padding: m_splits: 1 groups, expected 2");
  EXPECT_EQ(message_of([&] {
              pad.forward(x, nullptr, Splits{0, 5});
            }),
            "Fp8Padding: m_splits: 5, expected at most the 4 rows of the "
            "input");
}

}  // namespace
}  // namespace assay::te
