// Output files exist completely or not at all.
#include "assay/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <iterator>

#include "assay/base/error.h"
#include "scratch.h"

namespace assay {
namespace {

using test::read_file;
using test::Scratch;

std::ptrdiff_t files_in(const Scratch& scratch) {
  return std::distance(std::filesystem::directory_iterator(scratch.path()),
                       std::filesystem::directory_iterator{});
}

TEST(AtomicFile, CommitReplacesTheOldFile) {
  const Scratch scratch;
  test::write_file(scratch / "r", "old");
  {
    AtomicFile file(scratch / "r");
    file.write("new ");
    EXPECT_EQ(read_file(scratch / "r"), "old");
    file.write("text");
    file.commit();
  }
  EXPECT_EQ(read_file(scratch / "r"), "new text");
  EXPECT_EQ(files_in(scratch), 1);
}

TEST(AtomicFile, WithoutCommitNothingIsLeft) {
  const Scratch scratch;
  test::write_file(scratch / "r", "old");
  {
    AtomicFile file(scratch / "r");
    file.write(std::string(3 << 20, 'x'));
    EXPECT_EQ(files_in(scratch), 2);
  }
  EXPECT_EQ(read_file(scratch / "r"), "old");
  EXPECT_EQ(files_in(scratch), 1);
}

TEST(AtomicFile, SmallAndLargeWritesKeepTheirOrder) {
  const Scratch scratch;
  std::string all;
  AtomicFile file(scratch / "r");
  for (const std::size_t size : {3, 1 << 16, 5, 1, (1 << 16) - 1, 3 << 20, 0}) {
    const std::string piece(size, static_cast<char>('a' + all.size() % 26));
    file.write(piece);
    all += piece;
  }
  file.commit();
  EXPECT_EQ(read_file(scratch / "r"), all);
}

TEST(AtomicFile, HonoursTheUmask) {
  const Scratch scratch;
  const mode_t before = ::umask(077);
  AtomicFile file(scratch / "r");
  ::umask(before);
  file.commit();
  struct stat status {};
  ASSERT_EQ(::stat((scratch / "r").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(AtomicFile, LargerThanItsBuffer) {
  const Scratch scratch;
  std::string expected;
  AtomicFile file(scratch / "r");
  for (int i = 0; i < 300'000; ++i) {
    const std::string line = std::to_string(i) + "\n";
    file.write(line);
    expected += line;
  }
  file.commit();
  EXPECT_EQ(read_file(scratch / "r"), expected);
}

TEST(AtomicFile, SignalHandlerDiscardsOpenOnes) {
  const Scratch scratch;
  AtomicFile open(scratch / "a");
  AtomicFile done(scratch / "b");
  done.write("b");
  done.commit();
  discard_open_atomic_files();
  EXPECT_EQ(files_in(scratch), 1);
  EXPECT_EQ(read_file(scratch / "b"), "b");
}

TEST(AtomicFile, NamesThePathItCannotWrite) {
  const Scratch scratch;
  const auto path = scratch / "no/such/dir/r";
  try {
    AtomicFile file(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
  }
  EXPECT_THROW(AtomicFile{scratch.path()}, Error);  // a directory
}

TEST(AtomicFile, FullDiskIsAnError) {
  AtomicFile file("/dev/full");
  EXPECT_THROW(
      {
        file.write(std::string(2 << 20, 'x'));
        file.commit();
      },
      Error);
}

}  // namespace
}  // namespace assay
