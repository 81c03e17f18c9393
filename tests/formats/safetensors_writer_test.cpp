#include "assay/formats/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "assay/formats/safetensors.h"
#include "interchange_helpers.h"

namespace assay {
namespace {

using namespace interchange;
using ::testing::HasSubstr;

TensorInfo info(std::string name, DType dtype, Shape shape) {
  TensorInfo out;
  out.name = std::move(name);
  out.dtype = dtype;
  out.shape = std::move(shape);
  return out;
}

// Reads `path` and writes it again in the same order.
void rewrite(const std::filesystem::path& from,
             const std::filesystem::path& to) {
  const auto source = open_safetensors(FileBytes::of(MappedFile::open(from)));
  SafetensorsWriter writer(to, source->tensors());
  for (std::size_t i = 0; i < source->tensors().size(); ++i) {
    writer.write(source->load(i).view);
  }
  writer.commit();
}

TEST(SafetensorsWriter, WritesTheReferenceLibrarysBytes) {
  const Scratch scratch;
  const auto from =
      fixture("safetensors/sharded/model-00001-of-00002.safetensors");
  rewrite(from, scratch.path() / "copy");
  EXPECT_EQ(read_file(scratch.path() / "copy"), read_file(from));
}

TEST(SafetensorsWriter, F72_EveryDtypeRoundTrips) {
  const Scratch scratch;
  const auto from = fixture("safetensors/all_dtypes.safetensors");
  const auto to = scratch.path() / "copy.safetensors";
  rewrite(from, to);
  const auto a = open_safetensors(FileBytes::of(MappedFile::open(from)));
  const auto b = open_safetensors(FileBytes::of(MappedFile::open(to)));
  ASSERT_EQ(a->tensors().size(), b->tensors().size());
  for (std::size_t i = 0; i < a->tensors().size(); ++i) {
    EXPECT_EQ(a->tensors()[i].name, b->tensors()[i].name);
    EXPECT_EQ(a->tensors()[i].dtype, b->tensors()[i].dtype);
    EXPECT_EQ(a->tensors()[i].shape, b->tensors()[i].shape);
    EXPECT_EQ(bytes_of(a->load(i)), bytes_of(b->load(i)));
  }
}

TEST(SafetensorsWriter, StridedTensorsAreWrittenRowMajor) {
  const Scratch scratch;
  const auto path = scratch.path() / "t";
  // arange(6).reshape(2, 3).T is [[0, 3], [1, 4], [2, 5]].
  Tensor tensor = Tensor::zeros(DType::kI32, {2, 3});
  for (int i = 0; i < 6; ++i) {
    std::memcpy(tensor.mutable_data() + 4 * i, &i, 4);
  }
  tensor.view.shape = {3, 2};
  tensor.view.strides = {1, 3};
  SafetensorsWriter writer(path, {info("t", DType::kI32, {3, 2})});
  writer.write(tensor.view);
  writer.commit();
  const auto source = open_safetensors(FileBytes::of(MappedFile::open(path)));
  const std::string bytes = bytes_of(source->load(0));
  std::int32_t values[6];
  std::memcpy(values, bytes.data(), sizeof values);
  EXPECT_THAT(values, ::testing::ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(SafetensorsWriter, DataStartsOnAMultipleOfEight) {
  for (int length = 0; length < 16; ++length) {
    const std::string header = safetensors_header({info(
        std::string(static_cast<std::size_t>(length), 'n'), DType::kU8, {1})});
    EXPECT_EQ(header.size() % 8, 0u) << length;
  }
}

TEST(SafetensorsWriter, RefusesWhatTheFormatCannotHold) {
  const auto error = [](std::vector<TensorInfo> infos) {
    return refusal_of([&] { safetensors_header(infos); }).text;
  };
  EXPECT_THAT(error({info("a", DType::kU8, {1}), info("a", DType::kU8, {1})}),
              HasSubstr("twice"));
  EXPECT_THAT(error({info("__metadata__", DType::kU8, {1})}),
              HasSubstr("reserved"));
  EXPECT_THAT(error({info("\xff", DType::kU8, {1})}), HasSubstr("not UTF-8"));
  EXPECT_THAT(error({info("a", DType::kC128, {1})}), HasSubstr("complex128"));
  EXPECT_THAT(error({info("a", DType::kE2M1, {3})}), HasSubstr("whole bytes"));
  EXPECT_THAT(error({info("a", DType::kU8, {1ll << 62, 4})}),
              HasSubstr("too large"));
  EXPECT_THAT(error({info("a", DType::kU8, {1ll << 62}),
                     info("b", DType::kU8, {1ll << 62})}),
              HasSubstr("exceed"));
}

TEST(SafetensorsWriter, NothingAppearsWithoutEveryTensor) {
  const Scratch scratch;
  const auto path = scratch.path() / "t";
  {
    SafetensorsWriter writer(path, {info("a", DType::kU8, {1})});
    EXPECT_THAT(refusal_of([&] { writer.commit(); }).text,
                HasSubstr("never written"));
    const Tensor other = Tensor::zeros(DType::kU8, {2});
    EXPECT_THAT(refusal_of([&] { writer.write(other.view); }).text,
                HasSubstr("announced"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

RC_GTEST_PROP(SafetensorsWriter, AnyNamesAndMetadataRoundTrip, ()) {
  const auto text =
      rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
  const auto names = *rc::gen::unique<std::vector<std::string>>(text);
  std::vector<TensorInfo> infos;
  for (const std::string& name : names) {
    infos.push_back(info(name, DType::kU16, {0, 2}));
  }
  const std::map<std::string, std::string> metadata = {{"k\"", *text}};
  const std::string header = safetensors_header(infos, metadata);
  const auto source = open_safetensors(in_memory(header));
  RC_ASSERT(source->tensors().size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    RC_ASSERT(source->tensors()[i].name == names[i]);
  }
}

}  // namespace
}  // namespace assay
