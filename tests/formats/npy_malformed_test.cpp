// Headers numpy never wrote, cut files and flipped bits.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "assay/formats/npy.h"
#include "tests/formats/npy_test_util.h"

namespace assay {
namespace {

using testing::HasSubstr;

const Opener kOpen = [](FileBytes file) {
  return open_npy(std::move(file), {});
};

// A version 1.0 file of `dict` and `size` bytes of data.
std::string npy(const std::string& dict, std::size_t size) {
  std::string bytes("\x93NUMPY\1\0", 8);
  bytes += static_cast<char>(dict.size() & 0xff);
  bytes += static_cast<char>(dict.size() >> 8);
  return bytes + dict + std::string(size, '\0');
}

std::string f4(const std::string& shape, std::size_t size) {
  return npy(
      "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n",
      size);
}

TEST(NpyMalformed, AcceptsTheOneReadingOfOddShapes) {
  const auto shape = [](const std::string& text, std::size_t size) {
    return open_npy(in_memory(f4(text, size)), {})->tensors()[0].shape;
  };
  EXPECT_EQ(shape("(184)", 736), Shape{184});
  EXPECT_EQ(shape("(2L, 3L)", 24), (Shape{2, 3}));
  EXPECT_EQ(shape("(np.int64(1), np.int64(4))", 16), (Shape{1, 4}));
  EXPECT_EQ(shape("( 2 ,3,)", 24), (Shape{2, 3}));
}

TEST(NpyMalformed, RefusesEachShapeWithItsOwnText) {
  const std::pair<const char*, const char*> cases[] = {
      {"(-1, 4)", "negative dimension in shape [-1, 4]"},
      {"(4611686018427387904, 4)", "expected a shape whose size in bytes"},
      {"(4611686018427387904, 0)", "expected a shape whose size in bytes"},
      {"(1099511627776, 0)", "empty shape [1099511627776, 0]"},
      {"(9223372036854775808,)", "a dimension that fits 63 bits"},
      {"(18446744073709551615,)", "a dimension that fits 63 bits"},
      {"(2147483648,)", "expected 8589934592 for shape [2147483648]"},
      {"(4294967296,)", "expected 17179869184 for shape"},
      {"(5,)", "found 16 bytes of data, expected 20 for shape [5]"},
      {"(3,)", "found 16 bytes of data, expected 12 for shape [3]"},
      {"(4.0,)", "expected ')'"},
      {"(__import__('os').system('id'),)", "expected an integer"},
      {"4", "expected '('"},
      {"(4,", "expected an integer"},
      {"(,)", "expected an integer"},
      {"(4 4)", "expected ')'"},
  };
  for (const auto& [shape, text] : cases) {
    EXPECT_THAT(read_all(kOpen, f4(shape, 16)),
                AllOf(HasSubstr("refused: memory: offset "), HasSubstr(text)))
        << shape;
  }
  std::string rank65 = "(1";
  for (int i = 0; i < 64; ++i) rank65 += ",1";
  EXPECT_THAT(read_all(kOpen, f4(rank65 + ")", 4)),
              HasSubstr("at most 64 dimensions"));
}

TEST(NpyMalformed, RefusesBrokenDicts) {
  const std::pair<const char*, const char*> cases[] = {
      {"{'descr': '<f4', 'fortran_order': False}\n", "the keys 'descr'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, "
       "'shape': (4,)}\n",
       "each key once"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}\n",
       "'descr', 'fortran_order' or 'shape'"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (4,)}\n",
       "True or False"},
      {"{'descr': '<f3x', 'fortran_order': False, 'shape': (4,)}\n",
       "descr '<f3x'"},
      {"{'descr': '<q4', 'fortran_order': False, 'shape': (4,)}\n",
       "one of the kinds"},
      {"{'descr': '', 'fortran_order': False, 'shape': (4,)}\n",
       "a numpy dtype such as"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (4,)}\n",
       "the object dtype"},
      {"{'descr': [('a','<f4')", "a closing ']'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} junk\n",
       "nothing after"},
      {"{'descr: 4", "a closing quote"},
      {"{'de\\x73cr': '<f4'}", "a string without escapes"},
      {"", "'{'"},
  };
  for (const auto& [dict, text] : cases) {
    EXPECT_THAT(read_all(kOpen, npy(dict, 16)), HasSubstr(text)) << dict;
  }
  EXPECT_THAT(read_all(kOpen, npy("{'descr': " + std::string(60000, '['), 0)),
              HasSubstr("a closing ']'"));
}

TEST(NpyMalformed, TrailingBytesAreRefused) {
  // A second numpy.save into the same file would go uncompared.
  const std::string one = f4("(4,)", 16);
  EXPECT_THAT(read_all(kOpen, one + one), HasSubstr("expected 16 for shape"));
}

TEST(NpyMalformed, RefusesVersionsAndHeaderLengths) {
  std::string bytes = f4("(4,)", 16);
  bytes[6] = 4;
  EXPECT_THAT(read_all(kOpen, bytes), HasSubstr("found version 4.0"));
  bytes[6] = 2;  // now the length field is 4 bytes: two of them text
  EXPECT_THAT(read_all(kOpen, bytes), HasSubstr("bytes of the header"));
  const std::string good = f4("(4,)", 16);
  const int size = static_cast<unsigned char>(good[8]);
  for (const int length : {0, 1, size - 1, size + 1, 0xffff}) {
    std::string changed = good;
    changed[8] = static_cast<char>(length & 0xff);
    changed[9] = static_cast<char>(length >> 8);
    EXPECT_THAT(read_all(kOpen, changed), HasSubstr("refused: ")) << length;
  }
}

TEST(NpyMalformed, ChecksTheLengthFieldOfVersion2) {
  const std::string good = fixture_bytes("npy/v2.npy");
  for (const std::uint32_t length :
       {0u, 1u, 115u, 117u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    std::string changed = good;
    std::memcpy(changed.data() + 8, &length, 4);
    EXPECT_THAT(read_all(kOpen, changed), HasSubstr("refused: ")) << length;
  }
}

// 5 GiB declared and there, as a hole: mapped, not read, not allocated.
TEST(NpyMalformed, HandlesFilesOverFourGiB) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("assay_npy_sparse_" + std::to_string(::getpid()));
  const std::string header = f4("(1342177280,)", 0);
  std::ofstream(path, std::ios::binary) << header;
  const std::uintmax_t whole = header.size() + (std::uintmax_t{5} << 30);
  std::filesystem::resize_file(path, whole);
  const auto source = open_npy(MappedFile::open(path), {});
  EXPECT_EQ(source->tensors()[0].shape, Shape{1342177280});
  std::filesystem::resize_file(path, whole - 1);
  EXPECT_THAT(error_of([&] { open_npy(MappedFile::open(path), {}); }),
              HasSubstr("found 5368709119 bytes of data, expected 5368709120"));
  std::filesystem::remove(path);
}

TEST(NpyMalformed, Float4CodesAreBelowSixteen) {
  const std::string bytes =
      npy("{'descr': '|V1', 'fortran_order': False, 'shape': (2,)}\n", 1) +
      "\x10";
  const auto source = open_npy(in_memory(bytes), {.dtype = DType::kE2M1});
  EXPECT_THAT(error_of([&] { source->load(0); }),
              HasSubstr("element 1: found byte 16"));
}

TEST(NpyMalformed, EveryPrefixIsRefused) {
  expect_prefixes_refused(kOpen, fixture_bytes("npy/f4.npy"));
  expect_prefixes_refused(kOpen, fixture_bytes("npy/v3.npy"));
}

TEST(NpyMalformed, NoFlippedBitCrashes) {
  const int refused = flip_every_bit(kOpen, fixture_bytes("npy/f4.npy"), 128);
  EXPECT_GT(refused, 500);  // of 1024; spaces may become other spaces
}

}  // namespace
}  // namespace assay
