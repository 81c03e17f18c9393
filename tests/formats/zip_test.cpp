// Archives built byte by byte: what is accepted, and each lie's refusal.
#include <functional>

#include "assay/formats/zip_archive.h"
#include "tests/formats/npy_test_util.h"
#include "tests/formats/zip_builder.h"

namespace assay {
namespace {

using testing::HasSubstr;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Archive two_members() {
  return {
      .members = {
          {.name = "a", .content = "hello"},
          {.name = "b", .content = std::string(1000, 'x'), .deflated = true}}};
}

// Opens and reads every member.
std::string use(const std::string& bytes) {
  return error_of([&] {
    const ZipArchive archive(in_memory(bytes));
    for (const ZipEntry& entry : archive.entries()) {
      if (entry.method == kZipStored) archive.check_crc(entry);
      if (entry.method == kZipDeflated) archive.inflate(entry);
    }
  });
}

std::string use(const std::function<void(Archive&)>& change) {
  Archive archive = two_members();
  change(archive);
  return use(archive.bytes());
}

TEST(Zip, ReadsStoredAndDeflatedMembers) {
  const ZipArchive archive(in_memory(two_members().bytes()));
  ASSERT_EQ(archive.entries().size(), 2u);
  EXPECT_EQ(text_of(archive.raw(*archive.find("a"))), "hello");
  EXPECT_EQ(text_of(archive.inflate(*archive.find("b"))),
            std::string(1000, 'x'));
  EXPECT_EQ(text_of(archive.prefix(*archive.find("b"), 3)), "xxx");
  EXPECT_EQ(archive.find("c"), nullptr);
}

TEST(Zip, AcceptsCommentsAndSizesAfterData) {
  EXPECT_EQ(use([](Archive& a) { a.comment = std::string(65535, '!'); }),
            "no error");
  EXPECT_EQ(use([](Archive& a) {
              a.members[0].flags = 8;  // then local values mean nothing
              a.members[0].local_crc = 0;
            }),
            "no error");
}

TEST(Zip, ReadsZip64SizesFromTheExtraField) {
  const std::string extra =
      little(1, 2) + little(16, 2) + little(5, 8) + little(5, 8);
  EXPECT_EQ(use([&](Archive& a) {
              a.members[0].size = a.members[0].compressed = 0xffffffff;
              a.members[0].local_extra = a.members[0].extra = extra;
            }),
            "no error");
  EXPECT_THAT(use([&](Archive& a) { a.members[0].size = 0xffffffff; }),
              HasSubstr("no zip64 extra field"));
  EXPECT_THAT(use([&](Archive& a) {
                a.members[0].size = a.members[0].compressed = 0xffffffff;
                a.members[0].extra = little(1, 2) + little(8, 2) + little(5, 8);
              }),
              HasSubstr("8 bytes of zip64 size"));
}

TEST(Zip, RefusesEachLieWithItsOwnText) {
  using Change = std::function<void(Archive&)>;
  const std::pair<Change, const char*> cases[] = {
      {[](Archive& a) { a.prefix = "#!/bin/sh\n"; },
       "10 bytes before the first member"},
      {[](Archive& a) { a.members[0].offset = 1; }, "no local header"},
      {[](Archive& a) { a.members[0].offset = 0xfffffff0; },
       "position 4294967280"},
      {[](Archive& a) { a.members[1] = a.members[0]; }, "a second member 'a'"},
      {[](Archive& a) { a.members[0].flags = 1; }, "encrypted member 'a'"},
      {[](Archive& a) { a.members[0].method = 12; }, "compression method 12"},
      {[](Archive& a) { a.members[0].name = "\xff\xfe"; },
       "expected a UTF-8 name"},
      {[](Archive& a) { a.members[0].local_name = "z"; },
       "contradicts the directory"},
      {[](Archive& a) { a.members[0].local_crc = 7; },
       "contradicts the directory"},
      {[](Archive& a) { a.members[0].crc = 7; }, "CRC-32 907060870"},
      {[](Archive& a) { a.members[1].crc = 7; }, "expected 7"},
      {[](Archive& a) { a.members[0].size = 6; },
       "equal sizes of a stored member"},
      {[](Archive& a) { a.members[1].size = 999; }, "more bytes than declared"},
      {[](Archive& a) { a.members[1].size = 1001; }, "a broken deflate stream"},
      {[](Archive& a) { a.members[1].size = 0x7fffffff; },
       "at most 1100 times"},
      {[](Archive& a) { a.members[1].compressed = 0x7fffffff; },
       "2147483647 bytes of a member's data"},
      {[](Archive& a) { a.entries = 1; }, "more bytes of directory"},
      {[](Archive& a) { a.entries = 3; }, "3 members in"},
      {[](Archive& a) { a.entries = 0xffff; }, "65535 members in"},
      {[](Archive& a) { a.directory_offset = 1; }, "one that ends at"},
      {[](Archive& a) { a.directory_offset = 0xffffffff; }, "one that ends at"},
      {[](Archive& a) { a.directory_size = 0; }, "one that ends at"},
      {[](Archive& a) { a.directory_size = 0x80000000; }, "one that ends at"},
  };
  for (const auto& [change, text] : cases) {
    EXPECT_THAT(use(change),
                AllOf(HasSubstr("refused: memory: offset "), HasSubstr(text)));
  }
}

// An archive without members whose directory only the zip64 records describe.
std::string zip64_end(std::uint64_t record_size, std::uint64_t entries,
                      std::uint64_t size, std::uint64_t offset,
                      std::uint64_t at) {
  std::string out = "PK\6\6";
  out += little(record_size, 8) + little(45, 2) + little(45, 2) + little(0, 8);
  out += little(entries, 8) + little(entries, 8);
  out += little(size, 8) + little(offset, 8);
  out += "PK\6\7" + little(0, 4) + little(at, 8) + little(1, 4);
  return out + "PK\5\6" + little(0, 4) + little(0xffffffff, 4) +
         little(0xffffffff, 4) + little(0xffffffff, 4) + little(0, 2);
}

TEST(Zip, ChecksEveryZip64LengthAgainstTheFile) {
  EXPECT_EQ(use(zip64_end(44, 0, 0, 0, 0)), "no error");
  for (const std::uint64_t wrong :
       {std::uint64_t{1}, std::uint64_t{43}, std::uint64_t{45},
        std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
        ~std::uint64_t{0}}) {
    for (const std::string& bytes :
         {zip64_end(wrong, 0, 0, 0, 0), zip64_end(44, wrong, 0, 0, 0),
          zip64_end(44, 0, wrong, 0, 0), zip64_end(44, 0, 0, wrong, 0),
          zip64_end(44, 0, 0, 0, wrong)}) {
      EXPECT_THAT(use(bytes), HasSubstr("refused: memory: offset")) << wrong;
    }
  }
}

TEST(Zip, RefusesOverlappingMembers) {
  // Both directory entries name one local header, under one name each: the
  // trick of zip bombs without recursion.
  Archive archive = two_members();
  const std::string inner =
      Archive{.members = {{.name = "b", .content = "x"}}}.bytes();
  archive.members[0].content = inner;
  archive.members[1] = {.name = "b", .content = "x", .offset = 31};
  EXPECT_THAT(use(archive.bytes()),
              HasSubstr("member 'b' inside the member before it"));
}

TEST(Zip, RefusesBombs) {
  // 4 GiB and one byte declared for 10 MiB: over 100 to 1.
  Archive archive = two_members();
  const std::string zip64 =
      little(1, 2) + little(8, 2) + little((4ull << 30) + 1, 8);
  archive.members[1].deflated = false;
  archive.members[1].method = 8;
  archive.members[1].content = std::string(10 << 20, 'x');
  archive.members[1].size = 0xffffffff;
  archive.members[1].extra = archive.members[1].local_extra = zip64;
  EXPECT_THAT(use(archive.bytes()), HasSubstr("(a zip bomb)"));
}

TEST(Zip, RefusesHonestBombsThatDeclareLess) {
  // 1000 to 1 for real, but declared as 10 bytes: never inflated beyond them.
  Archive archive = two_members();
  archive.members[1].content = std::string(16 << 20, '\0');
  archive.members[1].size = 10;
  EXPECT_THAT(use(archive.bytes()), HasSubstr("more bytes than declared"));
}

TEST(Zip, EveryPrefixIsRefused) {
  const std::string bytes = two_members().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(use(bytes.substr(0, size)), HasSubstr("refused: ")) << size;
  }
}

TEST(Zip, NoFlippedBitCrashes) {
  const std::string bytes = two_members().bytes();
  int refused = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    refused += use(flipped) != "no error";
  }
  EXPECT_GT(refused, static_cast<int>(bytes.size()) * 4);
}

}  // namespace
}  // namespace assay
