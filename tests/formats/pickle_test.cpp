// The pickle machine alone: what it builds, and that it never runs anything.
#include "assay/formats/pickle.h"

#include "tests/formats/npy_test_util.h"
#include "tests/formats/pickle_builder.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace pickled;  // NOLINT(google-build-using-namespace)

constexpr PickleGlobal kAllowed[] = {{"m", "f", 5, true}, {"m", "c", 6, false}};

struct Parsed {
  FileBytes file;
  Pickle pickle;
};

Parsed parse(const std::string& bytes, std::uint64_t memory = 1 << 20) {
  Parsed parsed{in_memory(bytes), {}};
  parsed.pickle =
      parse_pickle(parsed.file.bytes, kAllowed, "f.pkl", 100, memory);
  return parsed;
}

std::string error(const std::string& bytes, std::uint64_t memory = 1 << 20) {
  return error_of([&] { parse(bytes, memory); });
}

TEST(Pickle, ReadsNumbersOfEveryWidth) {
  const auto number = [](const std::string& op) {
    return parse(whole(op)).pickle.root();
  };
  EXPECT_EQ(number("K\xff").integer(), 255);
  EXPECT_EQ(number("M\xff\xff").integer(), 65535);
  EXPECT_EQ(number("J\xfe\xff\xff\xff").integer(), -2);
  EXPECT_EQ(number(std::string("\x8a\0", 2)).integer(), 0);
  EXPECT_EQ(number("\x8a\x01\xff").integer(), -1);
  EXPECT_EQ(number(integer(1ll << 40)).integer(), 1ll << 40);
  EXPECT_TRUE(number(std::string("\x8a\x09").append(little(1, 9)))
                  .is(PickleKind::kBigInt));
  EXPECT_EQ(number(std::string("G\x3f\xc0\0\0\0\0\0\0", 9)).real(), 0.125);
  EXPECT_EQ(number("\x88").at, 1u);
  EXPECT_TRUE(number("N").is(PickleKind::kNone));
}

TEST(Pickle, SharesValuesThroughTheMemo) {
  const auto [file, pickle] =
      parse(whole(std::string("]q\0K\x07", 5) + std::string("ah\0\x86", 4)));
  const auto pair = pickle.items(pickle.root());
  ASSERT_EQ(pair.size(), 2u);
  EXPECT_EQ(pair[0].at, pair[1].at);
  EXPECT_EQ(pickle.items(pair[1])[0].integer(), 7);
}

TEST(Pickle, RecordsCallsWithoutMakingThem) {
  const auto [file, pickle] = parse(whole(call(global("m", "f"), {"K\x01"}) +
                                          "K\x02"
                                          "b" +
                                          text("k") + "K\x03s"));
  ASSERT_TRUE(pickle.root().is(PickleKind::kCall));
  const auto items = pickle.items(pickle.root());
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0].at, 5u);
  EXPECT_EQ(pickle.items(items[1])[0].integer(), 1);
  EXPECT_EQ(items[2].integer(), 2);
  EXPECT_EQ(pickle.text(items[3]), "k");
  EXPECT_EQ(items[4].integer(), 3);
}

TEST(Pickle, F77_NamesTheGlobalItRefuses) {
  // os.system("id"), as pickle writes it.
  const std::string attack =
      whole(call(global("posix", "system"), {text("id")}));
  EXPECT_THAT(error(attack),
              AllOf(HasSubstr("refused: f.pkl: offset 102: "),
                    HasSubstr("global not allowed: posix.system")));
  EXPECT_THAT(error("\x80\x04\x8c\x05posix\x8c\x06system\x93."),
              HasSubstr("global not allowed: posix.system"));
  EXPECT_THAT(error(whole(global("m", "f.__globals__"))),
              HasSubstr("global not allowed: m.f.__globals__"));
  EXPECT_THAT(error(whole(call(global("m", "c"), {}))),
              HasSubstr("a value that cannot be called"));
  EXPECT_THAT(error(whole(text("m") + ")R")), HasSubstr("cannot be called"));
}

TEST(Pickle, RefusesOpcodesOutsideTheSubset) {
  EXPECT_THAT(error(whole("c"
                          "m\nf\n)\x81")),
              HasSubstr("0x81 (NEWOBJ)"));
  EXPECT_THAT(error(whole("(im\nf\n")), HasSubstr("0x69 (INST)"));
  EXPECT_THAT(error(whole("\x82\x01")), HasSubstr("0x82 (EXT)"));
  EXPECT_THAT(error(whole("P1\n")), HasSubstr("0x50 (PERSID)"));
  EXPECT_THAT(error(whole("I1\n")), HasSubstr("opcode not allowed: 0x49"));
}

TEST(Pickle, RefusesBrokenStacksMemosAndEnds) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "bytes of a pickle"},
      {"K\x01.", "no PROTO opcode"},
      {"\x80\x01N.", "pickle protocol 1"},
      {"\x80\x06N.", "pickle protocol 6"},
      {whole(""), "STOP with 0 values"},
      {whole("NN"), "STOP with 2 values"},
      {whole("(N"), "STOP with 1 values"},
      {whole("N") + "N", "1 bytes after STOP"},
      {whole("\x85"), "0 values on its stack"},
      {whole("N(\x85"), "0 values on its stack"},
      {whole("Nt"), "no MARK"},
      {whole("Na"), "1 values on its stack"},
      {whole("NNa"), "a value that holds none"},
      {whole("}(Nu"), "a dict key without value"},
      {whole("NQ"), "a tuple"},
      {whole("NNb"), "without state"},
      {whole("q\x01"), "0 values on its stack"},
      {whole("Nq\x01"), "memo index 1, expected at most 0"},
      {whole("Nr\xff\xff\xff\xff"), "memo index 4294967295"},
      {whole(std::string("h\0", 2)), "memo index 0, expected less than 0"},
      {whole("X\xff\xff\xff\x7fx"), "2147483647 bytes of a string"},
      {whole(std::string("\x8d").append(little(1ull << 63, 8))),
       "a string of over 4 GiB"},
      {whole(std::string("\x95").append(little(~0ull, 8)) + "N"),
       "a frame beyond the end"},
      {whole("cm"), "an unended line"},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_THAT(error(bytes), HasSubstr(text));
  }
}

TEST(Pickle, NestsDeeplyWithoutRecursion) {
  std::string deep(100000, ']');
  deep += std::string(99999, 'a');
  EXPECT_EQ(error(whole(deep), 64 << 20), "no error");
  EXPECT_THAT(error(whole(deep)), HasSubstr("out of proportion"));
  EXPECT_THAT(error("\x80\x02" + std::string(1000000, '(')),
              HasSubstr("out of proportion"));
}

}  // namespace
}  // namespace assay
