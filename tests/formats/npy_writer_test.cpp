// The writer's bytes against numpy's own.
#include "assay/formats/npy_writer.h"

#include <unistd.h>

#include <filesystem>

#include "assay/formats/npy.h"
#include "tests/formats/npy_test_util.h"

namespace assay {
namespace {

class NpyWriter : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string written() {
    const FileBytes file = FileBytes::of(MappedFile::open(path_));
    return {reinterpret_cast<const char*>(file.bytes.data()),
            file.bytes.size()};
  }
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      ("assay_npy_writer_" + std::to_string(::getpid()) + ".npy");
};

TEST_F(NpyWriter, WritesTheBytesNumpyWrites) {
  for (const char* name : {"f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2",
                           "u4", "u8", "b1", "c8", "c16", "scalar", "empty"}) {
    const std::string file = std::string("npy/") + name + ".npy";
    write_npy(path_, open_npy(fixture(file), {})->load(0).view);
    EXPECT_EQ(written(), fixture_bytes(file)) << name;
  }
}

TEST_F(NpyWriter, WritesStridedTensorsInOrder) {
  write_npy(path_, open_npy(fixture("npy/fortran.npy"), {})->load(0).view);
  const Tensor back =
      open_npy(FileBytes::of(MappedFile::open(path_)), {})->load(0);
  EXPECT_TRUE(back.view.is_contiguous());
  EXPECT_EQ(values_of<double>(back)[23], 23.0);
}

TEST_F(NpyWriter, WritesWhatMlDtypesWrites) {
  const std::pair<const char*, DType> cases[] = {
      {"bfloat16", DType::kBF16},
      {"float8_e4m3fn", DType::kE4M3FN},
      {"float4_e2m1fn", DType::kE2M1}};
  for (const auto& [name, dtype] : cases) {
    const std::string file = std::string("npy/") + name + ".npy";
    write_npy(path_, open_npy(fixture(file), {.dtype = dtype})->load(0).view);
    EXPECT_EQ(written(), fixture_bytes(file)) << name;
  }
}

}  // namespace
}  // namespace assay
