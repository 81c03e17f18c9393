// Reads what numpy.savez wrote, and archives it never would.
#include "assay/formats/npz.h"

#include "assay/formats/npy_writer.h"
#include "tests/formats/npy_test_util.h"
#include "tests/formats/zip_builder.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Opener kOpen = [](FileBytes file) {
  return open_npz(std::move(file), {});
};

std::unique_ptr<TensorSource> open(const std::string& name,
                                   ReadOptions options = {}) {
  return open_npz(fixture("npz/" + name + ".npz"), options);
}

std::vector<std::string> names_of(const TensorSource& source) {
  std::vector<std::string> names;
  for (const TensorInfo& info : source.tensors()) names.push_back(info.name);
  return names;
}

// A .npy of `count` zeroed floats.
std::string zeros(std::int64_t count) {
  return npy_header(DType::kF32, {count}) +
         std::string(static_cast<std::size_t>(count) * 4, '\0');
}

TEST(Npz, ReadsStoredMembersInOrder) {
  const auto source = open("stored");
  EXPECT_THAT(names_of(*source), ElementsAre("a", "b", "dir/x", ""));
  EXPECT_EQ(source->tensors()[1].shape, (Shape{3, 2}));
  EXPECT_THAT(values_of<float>(source->load(0)), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values_of<std::int32_t>(source->load(1)),
              ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values_of<float>(source->load(2)), ElementsAre(0, 1, 2));
  EXPECT_THAT(values_of<std::int64_t>(source->load(3)), ElementsAre(7));
}

TEST(Npz, ReadsDeflatedMembers) {
  const auto source = open("deflated");
  EXPECT_THAT(names_of(*source), ElementsAre("a", "b", "zeros"));
  EXPECT_THAT(values_of<float>(source->load(0)), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values_of<std::int32_t>(source->load(1)),
              ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(values_of<float>(source->load(2)), std::vector<float>(20000, 0.0f));
}

TEST(Npz, VoidMembersNeedTheirDtype) {
  EXPECT_THAT(open("void")->tensors()[0].unsupported, HasSubstr("--dtype"));
  const auto source = open("void", {.dtype = DType::kBF16});
  EXPECT_THAT(values_of<std::uint16_t>(source->load(0)),
              ElementsAre(0x3f80, 0xc000));
}

TEST(Npz, ListsForeignMembersAndKeepsNamesThatLookLikePaths) {
  const Archive archive{.members = {{.name = "../up.npy", .content = zeros(1)},
                                    {.name = "/etc/x.npy", .content = zeros(1)},
                                    {.name = "notes.txt", .content = "hi"}}};
  const auto source = kOpen(in_memory(archive.bytes()));
  EXPECT_THAT(names_of(*source), ElementsAre("../up", "/etc/x", "notes.txt"));
  EXPECT_EQ(source->load(0).view.shape, Shape{1});
  EXPECT_THAT(error_of([&] { source->load(2); }),
              HasSubstr("unsupported: memory: member 'notes.txt'"));
}

TEST(Npz, KeepsNamesApartThatOnlyLookAlike) {
  const std::vector<std::string> names = {
      std::string(300, 'n'), "Twin", "twin", "\u00e9", "e\u0301", "a/b"};
  Archive archive;
  for (const std::string& name : names) {
    archive.members.push_back({.name = name + ".npy", .content = zeros(1)});
  }
  EXPECT_EQ(names_of(*kOpen(in_memory(archive.bytes()))), names);
}

TEST(Npz, RefusesTwoMembersOfOneName) {
  const Archive archive{.members = {{.name = "a.npy", .content = zeros(1)},
                                    {.name = "a", .content = "x"}}};
  EXPECT_THAT(read_all(kOpen, archive.bytes()),
              HasSubstr("two members are named 'a'"));
}

TEST(Npz, RefusesArraysThatDoNotFillTheirMember) {
  for (const bool deflated : {false, true}) {
    const auto with = [&](const std::string& content) {
      return read_all(kOpen, Archive{.members = {{.name = "a.npy",
                                                  .content = content,
                                                  .deflated = deflated}}}
                                 .bytes());
    };
    EXPECT_EQ(with(zeros(1000)), "no error");
    EXPECT_THAT(with(zeros(1000) + "x"),
                HasSubstr("found 4001 bytes of data, expected 4000"));
    EXPECT_THAT(with(zeros(1000).substr(0, 4000)),
                HasSubstr("found 3872 bytes of data, expected 4000"));
    EXPECT_THAT(with("PK"), HasSubstr("bytes of the .npy magic"));
    EXPECT_THAT(with(std::string("\x93NUMPY\2\0\xff\xff\xff\x7f", 12)),
                HasSubstr("refused: memory: member 'a.npy': offset"));
  }
}

TEST(Npz, ReadsLongDeflatedHeaders) {
  // 8,000 bytes of padding: more than the first read of a member.
  std::string header = npy_header(DType::kF32, {2});
  header.insert(header.size() - 1, std::string(8000, ' '));
  const std::size_t length = header.size() - 10;
  header[8] = static_cast<char>(length & 0xff);
  header[9] = static_cast<char>(length >> 8);
  const Archive archive{.members = {{.name = "a.npy",
                                     .content = header + std::string(8, '\0'),
                                     .deflated = true}}};
  EXPECT_THAT(values_of<float>(kOpen(in_memory(archive.bytes()))->load(0)),
              ElementsAre(0, 0));
}

TEST(Npz, ABombOfOneThousandToOneIsRefusedOrInflatesToWhatItDeclares) {
  const Archive honest{
      .members = {
          {.name = "a.npy", .content = zeros(4 << 20), .deflated = true}}};
  EXPECT_EQ(read_all(kOpen, honest.bytes()), "no error");
  Archive lying = honest;
  lying.members[0].size = 128 + 16;  // shape says 16 MiB
  EXPECT_THAT(read_all(kOpen, lying.bytes()), HasSubstr("found 16 bytes"));
}

TEST(Npz, EveryPrefixIsRefused) {
  expect_prefixes_refused(kOpen, fixture_bytes("npz/stored.npz"));
  expect_prefixes_refused(kOpen, fixture_bytes("npz/deflated.npz"));
}

TEST(Npz, NoFlippedBitPassesUnnoticed) {
  // Every byte of the members is under a CRC-32; what a flip can reach without
  // being refused are fields without meaning (dates, versions, attributes).
  const std::string bytes = fixture_bytes("npz/stored.npz");
  const int refused = flip_every_bit(kOpen, bytes, bytes.size());
  EXPECT_GT(refused, static_cast<int>(bytes.size()) * 8 * 6 / 10);
  const std::string deflated = fixture_bytes("npz/deflated.npz");
  EXPECT_GT(flip_every_bit(kOpen, deflated, deflated.size()), 0);
}

}  // namespace
}  // namespace assay
