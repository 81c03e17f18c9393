// Reads what torch 2.13 saved (tests/data/formats/torch).
#include <complex>
#include <map>

#include "assay/formats/torch_file.h"
#include "tests/formats/npy_test_util.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<TensorSource> open(const std::string& name) {
  return open_torch(fixture("torch/" + name + ".pt"), {});
}

std::map<std::string, std::size_t> index_of(const TensorSource& source) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    index[source.tensors()[i].name] = i;
  }
  return index;
}

template <class T>
void expect_values(DType dtype, const std::vector<T>& values) {
  const std::string name(traits(dtype).name);
  const auto source = open(name);
  ASSERT_EQ(source->tensors().size(), 1u);
  EXPECT_EQ(source->tensors()[0].name, "");
  EXPECT_EQ(source->tensors()[0].dtype, dtype) << name;
  EXPECT_EQ(source->tensors()[0].shape, Shape{3}) << name;
  EXPECT_EQ(values_of<T>(source->load(0)), values) << name;
}

TEST(Torch, ReadsEveryDtype) {
  expect_values<double>(DType::kF64, {0, 1, 2});
  expect_values<float>(DType::kF32, {0, 1, 2});
  expect_values<std::uint16_t>(DType::kF16, {0, 0x3c00, 0x4000});
  expect_values<std::uint16_t>(DType::kBF16, {0, 0x3f80, 0x4000});
  expect_values<std::int8_t>(DType::kI8, {0, 1, 2});
  expect_values<std::int16_t>(DType::kI16, {0, 1, 2});
  expect_values<std::int32_t>(DType::kI32, {0, 1, 2});
  expect_values<std::int64_t>(DType::kI64, {0, 1, 2});
  expect_values<std::uint8_t>(DType::kU8, {0, 1, 2});
  expect_values<std::uint16_t>(DType::kU16, {0, 1, 2});
  expect_values<std::uint32_t>(DType::kU32, {0, 1, 2});
  expect_values<std::uint64_t>(DType::kU64, {0, 1, 2});
  expect_values<std::uint8_t>(DType::kBool, {0, 1, 1});
  expect_values<std::complex<float>>(DType::kC64, {0, 1, 2});
  expect_values<std::complex<double>>(DType::kC128, {0, 1, 2});
  expect_values<std::uint8_t>(DType::kE4M3FN, {0, 0x38, 0x40});
  expect_values<std::uint8_t>(DType::kE5M2, {0, 0x3c, 0x40});
  expect_values<std::uint8_t>(DType::kE4M3FNUZ, {0, 0x40, 0x48});
  expect_values<std::uint8_t>(DType::kE5M2FNUZ, {0, 0x40, 0x44});
  expect_values<std::uint8_t>(DType::kE8M0, {0x7e, 0x7f, 0x80});
}

TEST(Torch, CountsTheCodesOfPairedFloat4) {
  const auto source = open("float4_e2m1fn_x2");
  EXPECT_EQ(source->tensors()[0].dtype, DType::kE2M1);
  EXPECT_EQ(source->tensors()[0].shape, (Shape{2, 4}));
  const Tensor tensor = source->load(0);
  const auto bytes = tensor.view.bytes();
  EXPECT_THAT(std::vector<std::byte>(bytes.begin(), bytes.end()),
              ElementsAre(std::byte{0x21}, std::byte{0x43}, std::byte{0x65},
                          std::byte{0x87}));
}

TEST(Torch, ReadsScalarsAndEmptyTensors) {
  EXPECT_EQ(open("scalar")->tensors()[0].shape, Shape{});
  EXPECT_THAT(values_of<float>(open("scalar")->load(0)), ElementsAre(2.5f));
  EXPECT_EQ(open("empty")->load(0).view.shape, (Shape{0, 3}));
}

TEST(Torch, F67_ViewsKeepTheirStridesAndOffsets) {
  const Tensor transposed = open("transposed")->load(0);
  EXPECT_EQ(transposed.view.shape, (Shape{3, 2}));
  EXPECT_EQ(transposed.view.strides, (Shape{1, 3}));
  EXPECT_THAT(values_of<float>(transposed), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(values_of<float>(open("offset")->load(0)), ElementsAre(1, 2, 3));
  EXPECT_THAT(values_of<float>(open("every_second")->load(0)),
              ElementsAre(0, 2, 4));
  const Tensor expanded = open("expanded")->load(0);
  EXPECT_EQ(expanded.view.strides, (Shape{0, 1}));
  EXPECT_THAT(values_of<float>(expanded), ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(Torch, SharedStoragesAreReadOnceAndViewed) {
  const auto source = open("shared");
  ASSERT_EQ(source->tensors().size(), 2u);
  const Tensor a = source->load(0), b = source->load(1);
  EXPECT_EQ(source->tensors()[1].name, "b");
  EXPECT_EQ(b.view.data, a.view.data + 12);
  EXPECT_THAT(values_of<float>(b), ElementsAre(3, 4, 5));
}

TEST(Torch, ReadsParametersAndTensorsWithAttributes) {
  for (const char* name :
       {"parameter", "parameter_with_state", "tensor_with_state"}) {
    const auto source = open(name);
    ASSERT_EQ(source->tensors().size(), 1u) << name;
    EXPECT_EQ(source->tensors()[0].name, "");
    EXPECT_THAT(values_of<float>(source->load(0)),
                ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

void expect_checkpoint(const std::string& name) {
  const auto source = open(name);
  const auto index = index_of(*source);
  const auto at = [&](const char* key) { return source->load(index.at(key)); };
  EXPECT_THAT(values_of<float>(at("model.1.weight")).size(), 2u);
  EXPECT_EQ(values_of<std::int64_t>(at("model.1.num_batches_tracked"))[0], 1);
  EXPECT_EQ(at("optimizer.state.0.exp_avg").view.shape, (Shape{2, 2}));
  EXPECT_EQ(values_of<double>(at("optimizer.param_groups.0.betas.1"))[0],
            0.999);
  EXPECT_EQ(values_of<std::int64_t>(at("optimizer.param_groups.0.params.3"))[0],
            3);
  EXPECT_EQ(values_of<std::int64_t>(at("step"))[0], 7);
  EXPECT_EQ(at("step").view.shape, Shape{});
  EXPECT_EQ(values_of<double>(at("rate"))[0], 0.125);
  EXPECT_EQ(at("done").view.dtype, DType::kBool);
  EXPECT_EQ(values_of<std::uint8_t>(at("done"))[0], 1);
  EXPECT_EQ(values_of<std::int64_t>(at("shape.1"))[0], 3);
  EXPECT_EQ(values_of<std::complex<double>>(at("z"))[0],
            std::complex<double>(1, 2));
  EXPECT_EQ(values_of<std::int64_t>(at("negative"))[0], -3);
  EXPECT_THAT(values_of<float>(at("list.0")), ElementsAre(0));
  EXPECT_THAT(values_of<float>(at("list.1.0")), ElementsAre(1));
  EXPECT_EQ(values_of<std::int64_t>(at("list.1.1"))[0], -70000);
  EXPECT_THAT(values_of<float>(at("3")), ElementsAre(3));
  EXPECT_THAT(source->tensors()[index.at("huge")].unsupported,
              HasSubstr("64 bits"));
  EXPECT_THAT(values_of<std::uint8_t>(at("name")), ElementsAre('r', 'u', 'n'));
  ASSERT_EQ(source->notes().size(), 1u);
  EXPECT_THAT(source->notes()[0], HasSubstr("values hold no numbers"));
}

TEST(Torch, FlattensNestedCheckpoints) {
  expect_checkpoint("checkpoint");
  expect_checkpoint("checkpoint_protocol4");
}

TEST(Torch, ListsWhatHasNoPlainBytes) {
  const std::pair<const char*, const char*> cases[] = {
      {"quantised", "_rebuild_qtensor"},
      {"conjugate", "metadata 'conj'"},
      {"text", "holds a string, no tensor"},
      {"storage", "a bare storage"}};
  for (const auto& [name, text] : cases) {
    const auto source = open(name);
    ASSERT_EQ(source->tensors().size(), 1u) << name;
    EXPECT_THAT(source->tensors()[0].unsupported, HasSubstr(text));
    EXPECT_THAT(error_of([&] { source->load(0); }),
                testing::StartsWith("unsupported: "));
  }
  const auto sparse = open("sparse");
  EXPECT_THAT(sparse->tensors()[0].unsupported, HasSubstr("sparse"));
  EXPECT_THAT(values_of<float>(sparse->load(1)), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Torch, RefusesOtherKindsWithAdvice) {
  EXPECT_THAT(error_of([] { open("legacy"); }),
              HasSubstr("save it again with torch >= 1.6"));
  EXPECT_THAT(error_of([] { open("script"); }),
              HasSubstr("save module.state_dict()"));
  EXPECT_THAT(error_of([] { open("set"); }),
              HasSubstr("global not allowed: __builtin__.set"));
}

TEST(Torch, IsZeroCopy) {
  const FileBytes file = fixture("torch/float32.pt");
  const Tensor tensor = open_torch(file, {})->load(0);
  EXPECT_GE(tensor.view.data, file.bytes.data());
  EXPECT_LT(tensor.view.data, file.bytes.data() + file.bytes.size());
}

}  // namespace
}  // namespace assay
