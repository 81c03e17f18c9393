// Mapped files: what is refused, and what happens when the file shrinks.
#include "assay/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "assay/base/error.h"
#include "scratch.h"

namespace assay {
namespace {

using test::Scratch;
using test::write_file;

// Mapped, not copied: several pages above the threshold for a copy.
constexpr std::size_t kLarge = 1 << 20;

void expect_unreadable(const std::filesystem::path& path) {
  try {
    MappedFile::open(path);
    FAIL() << path << " was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnreadable);
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
  }
}

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

TEST(MappedFile, ReadsSmallAndLarge) {
  const Scratch scratch;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{65535}, std::size_t{65536}, kLarge + 1}) {
    std::string bytes(size, 'x');
    bytes.back() = 'y';
    write_file(scratch / "f", bytes);
    const auto file = MappedFile::open(scratch / "f");
    EXPECT_EQ(text_of(*file), bytes);
    EXPECT_NO_THROW(file->check_intact());
    EXPECT_TRUE(MappedFile::intact(file->bytes().data()));
  }
}

TEST(MappedFile, EmptyFileIsAnEmptySpan) {
  const Scratch scratch;
  write_file(scratch / "empty", "");
  EXPECT_TRUE(MappedFile::open(scratch / "empty")->bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const Scratch scratch;
  expect_unreadable(scratch / "absent");
  expect_unreadable(scratch.path());
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  expect_unreadable(scratch / "fifo");  // and does not hang
}

TEST(MappedFile, VanishedPagesReadAsZeros) {
  const Scratch scratch;
  write_file(scratch / "f", std::string(kLarge, 'x'));
  const auto file = MappedFile::open(scratch / "f");
  std::filesystem::resize_file(scratch / "f", 8192);
  EXPECT_EQ(file->bytes()[100], std::byte{'x'});
  EXPECT_EQ(file->bytes()[kLarge - 1], std::byte{0});
  EXPECT_FALSE(file->intact());
  EXPECT_FALSE(MappedFile::intact(file->bytes().data() + 5));
  try {
    file->check_intact();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnreadable);
  }
}

// Within the last page no signal comes: the kernel itself reads zeros there.
TEST(MappedFile, NoticesALossWithinAPage) {
  const Scratch scratch;
  write_file(scratch / "f", std::string(kLarge + 2000, 'x'));
  const auto file = MappedFile::open(scratch / "f");
  std::filesystem::resize_file(scratch / "f", kLarge + 1000);
  EXPECT_EQ(file->bytes()[kLarge + 1500], std::byte{0});
  EXPECT_FALSE(MappedFile::intact(file->bytes().data()));
  EXPECT_THROW(file->check_intact(), Error);
}

TEST(MappedFile, NoticesARewriteInPlace) {
  const Scratch scratch;
  write_file(scratch / "f", std::string(kLarge, 'x'));
  std::filesystem::last_write_time(
      scratch / "f",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto file = MappedFile::open(scratch / "f");
  write_file(scratch / "f", std::string(kLarge, 'z'));
  EXPECT_THROW(file->check_intact(), Error);
}

// A file replaced by rename leaves the one that was mapped as it is.
TEST(MappedFile, ReplacedOrRemovedIsIntact) {
  const Scratch scratch;
  write_file(scratch / "f", std::string(kLarge, 'x'));
  const auto file = MappedFile::open(scratch / "f");
  write_file(scratch / "g", "short");
  std::filesystem::rename(scratch / "g", scratch / "f");
  EXPECT_EQ(file->bytes()[kLarge - 1], std::byte{'x'});
  EXPECT_NO_THROW(file->check_intact());
  std::filesystem::remove(scratch / "f");
  EXPECT_NO_THROW(file->check_intact());
}

// A file that grows, a trace still being written, is no fault.
TEST(MappedFile, GrowthIsIntact) {
  const Scratch scratch;
  write_file(scratch / "f", std::string(kLarge, 'x'));
  const auto file = MappedFile::open(scratch / "f");
  write_file(scratch / "f", std::string(kLarge + 1, 'x'));
  EXPECT_EQ(file->size(), kLarge);
  EXPECT_NO_THROW(file->check_intact());
}

TEST(MappedFile, ThreadsFaultTogether) {
  const Scratch scratch;
  write_file(scratch / "f", std::string(kLarge, 'x'));
  const auto file = MappedFile::open(scratch / "f");
  std::filesystem::resize_file(scratch / "f", 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kLarge; i += 512)
        EXPECT_EQ(file->bytes()[i], std::byte{0});
      EXPECT_FALSE(file->intact());
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(MappedFile, ReleasedPagesComeBack) {
  const Scratch scratch;
  write_file(scratch / "f", std::string(kLarge, 'x'));
  const auto file = MappedFile::open(scratch / "f");
  EXPECT_EQ(text_of(*file), std::string(kLarge, 'x'));
  MappedFile::release(file->bytes().subspan(100, kLarge / 2));
  EXPECT_EQ(text_of(*file), std::string(kLarge, 'x'));
}

// By signal, or by a sanitizer that had the signal before us.
TEST(MappedFileDeathTest, ForeignBusErrorsStillKill) {
  EXPECT_DEATH(
      {
        const Scratch scratch;
        write_file(scratch / "f", std::string(kLarge, 'x'));
        const auto file = MappedFile::open(scratch / "f");
        ::raise(SIGBUS);
      },
      "");
}

}  // namespace
}  // namespace assay
