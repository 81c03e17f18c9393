// Torch archives torch never wrote: hostile pickles, lying views, cut files.
#include "assay/formats/torch_file.h"
#include "tests/formats/npy_test_util.h"
#include "tests/formats/pickle_builder.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace pickled;  // NOLINT(google-build-using-namespace)

const Opener kOpen = [](FileBytes file) {
  return open_torch(std::move(file), {});
};

const std::string kSixFloats(24, '\0');

std::string saved(const std::string& body) {
  return archive(whole(body), kSixFloats).bytes();
}

std::string view(std::int64_t offset, const std::vector<std::int64_t>& size,
                 const std::vector<std::int64_t>& stride) {
  return saved(tensor(storage("FloatStorage", 6), offset, size, stride));
}

TEST(TorchMalformed, TheBuilderMakesReadableFiles) {
  EXPECT_EQ(read_all(kOpen, view(0, {2, 3}, {3, 1})), "no error");
  EXPECT_EQ(read_all(kOpen, view(6, {0}, {1})), "no error");
}

TEST(TorchMalformed, F77_CodeInAPickleIsRefusedAndNamed) {
  const std::string attack = saved(
      call(global("posix", "system"), {text("touch /tmp/assay_was_here")}));
  EXPECT_THAT(read_all(kOpen, attack),
              AllOf(HasSubstr("refused: memory: offset "),
                    HasSubstr("global not allowed: posix.system")));
  for (const auto& [module, name] : {std::pair("builtins", "eval"),
                                     {"torch.storage", "_load_from_bytes"},
                                     {"torch.hub", "load"},
                                     {"os", "system"},
                                     {"torch", "load"},
                                     {"collections", "OrderedDict.update"}}) {
    EXPECT_THAT(
        read_all(kOpen, saved(call(global(module, name), {"N"}))),
        HasSubstr("global not allowed: " + std::string(module) + "." + name));
  }
}

TEST(TorchMalformed, ViewsStayInsideTheirStorage) {
  constexpr std::int64_t kMax = 0x7fffffffffffffff;
  const std::pair<std::string, const char*> cases[] = {
      {view(1, {2, 3}, {3, 1}), "inside its storage of 6"},
      {view(7, {0}, {1}), "inside its storage of 6"},
      {view(0, {7}, {1}), "inside its storage of 6"},
      {view(0, {2}, {6}), "inside its storage of 6"},
      {view(kMax, {1}, {1}), "inside its storage of 6"},
      {view(0, {kMax}, {1}), "a shape whose size in bytes"},
      {view(0, {kMax, kMax}, {0, 0}), "a shape whose size in bytes"},
      {view(0, {3, 2}, {kMax, kMax}), "an extent that fits 63 bits"},
      {view(0, {1ll << 40, 0}, {0, 1}), "empty shape"},
      {view(-1, {1}, {1}), "-1 as storage offset"},
      {view(0, {-1}, {1}), "-1 as size"},
      {view(0, {2}, {-1}), "-1 as stride"},
      {view(0, {2}, {}), "0 strides, expected 1"},
      {view(0, std::vector<std::int64_t>(65, 1),
            std::vector<std::int64_t>(65, 1)),
       "65 dimensions"},
      {view(0, {1 << 25}, {0}), "an expanded view of 134217728 bytes"},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_THAT(read_all(kOpen, bytes), HasSubstr(text));
  }
  EXPECT_EQ(read_all(kOpen, view(0, {1 << 24}, {0})), "no error");
}

TEST(TorchMalformed, StoragesAreWhatThePickleSays) {
  const std::vector<std::int64_t> six{6}, one{1};
  const auto with = [&](const std::string& store) {
    return read_all(kOpen, saved(tensor(store, 0, six, one)));
  };
  EXPECT_THAT(with(storage("FloatStorage", 7)),
              HasSubstr("storage '0' of 24 bytes, expected 7 elements of 4"));
  EXPECT_THAT(with(storage("DoubleStorage", 6)), HasSubstr("of 24 bytes"));
  EXPECT_THAT(with(storage("FloatStorage", -1)), HasSubstr("-1 as element"));
  EXPECT_THAT(with(storage("FloatStorage", 6, "1")),
              HasSubstr("no member 't/data/1'"));
  EXPECT_THAT(with(storage("FloatStorage", 6, "../data/0")),
              HasSubstr("no member 't/data/../data/0'"));
  EXPECT_THAT(with(storage("Tensor", 6)), HasSubstr("Tensor as storage"));
  EXPECT_THAT(with("N"), HasSubstr("no storage"));
  EXPECT_THAT(with(tuple({text("storage")}) + "Q"),
              HasSubstr("another persistent id"));
}

TEST(TorchMalformed, MembersAreWhatTorchWrites) {
  const std::string body =
      whole(tensor(storage("FloatStorage", 6), 0, {6}, {1}));
  const auto change = [&](const std::function<void(Archive&)>& edit) {
    Archive changed = archive(body, kSixFloats);
    edit(changed);
    return read_all(kOpen, changed.bytes());
  };
  EXPECT_THAT(change([](Archive& a) { a.members[2].deflated = true; }),
              HasSubstr("compressed member 't/data/0'"));
  EXPECT_THAT(change([](Archive& a) { a.members[0].deflated = true; }),
              HasSubstr("a compressed data.pkl"));
  EXPECT_THAT(change([](Archive& a) { a.members[1].content = "middle"; }),
              HasSubstr("byteorder 'middle'"));
  EXPECT_THAT(change([](Archive& a) { a.members[3].name = "u/version"; }),
              HasSubstr("member 'u/version', expected all members in 't/'"));
  EXPECT_THAT(change([](Archive& a) { a.members[3].name = "t/constants.pkl"; }),
              HasSubstr("TorchScript"));
  EXPECT_THAT(change([](Archive& a) { a.members[0].name = "t/x"; }),
              HasSubstr("no <folder>/data.pkl"));
}

TEST(TorchMalformed, TheCrcOfThePickleIsCheckedWhereThereIsOne) {
  Archive changed = archive(
      whole(tensor(storage("FloatStorage", 6), 0, {6}, {1})), kSixFloats);
  changed.members[0].crc = 1;
  EXPECT_THAT(read_all(kOpen, changed.bytes()), HasSubstr("expected 1"));
  // torch.serialization.set_crc32_options(False) writes zeros.
  changed.members[0].crc = 0;
  EXPECT_EQ(read_all(kOpen, changed.bytes()), "no error");
}

TEST(TorchMalformed, BigEndianArchivesAreSwapped) {
  Archive big =
      archive(whole(tensor(storage("FloatStorage", 6), 1, {2}, {2})),
              std::string("....\x3f\x80\0\0....\xc0\0\0\0........", 24));
  big.members[1].content = "big";
  const auto source = kOpen(in_memory(big.bytes()));
  EXPECT_THAT(values_of<float>(source->load(0)), ElementsAre(1.0f, -2.0f));
}

TEST(TorchMalformed, UnalignedStoragesAreCopied) {
  for (int shift = 0; shift < 4; ++shift) {
    Archive shifted = archive(
        whole(tensor(storage("FloatStorage", 6), 0, {6}, {1})), kSixFloats);
    shifted.members[2].local_extra = std::string(shift, '\0');
    const Tensor tensor = kOpen(in_memory(shifted.bytes()))->load(0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.view.data) % 4, 0u);
  }
}

TEST(TorchMalformed, DeepAndExplodingGraphsAreRefused) {
  EXPECT_THAT(
      read_all(kOpen, saved(std::string(100, ']') + std::string(99, 'a'))),
      HasSubstr("nested deeper than 64"));
  EXPECT_THAT(read_all(kOpen, saved(std::string(100000, ']') +
                                    std::string(99999, 'a'))),
              HasSubstr("nested deeper than 64"));
  EXPECT_THAT(read_all(kOpen, saved(std::string("]q\0h\0a", 6))),
              HasSubstr("nested deeper than 64"));
  // Nine lists, each of ten times the one before: 10^9 leaves.
  std::string laughs = "K\x01q" + std::string(1, '\0');
  for (char level = 1; level <= 9; ++level) {
    laughs += "](";
    for (int i = 0; i < 10; ++i) laughs += std::string("h") + char(level - 1);
    laughs += std::string("eq") + level;
  }
  laughs = "(" + laughs + "t";
  EXPECT_THAT(read_all(kOpen, saved(laughs)),
              HasSubstr("expands out of proportion"));
}

TEST(TorchMalformed, NamesAreUniqueAndText) {
  const std::string one = "K\x01";
  const auto dict = [](const std::string& items) {
    return saved("}(" + items + "u");
  };
  EXPECT_THAT(read_all(kOpen, dict(text("a") + one + text("a") + one)),
              HasSubstr("two values named 'a'"));
  EXPECT_THAT(read_all(kOpen, dict(text("1") + one + one + one)),
              HasSubstr("two values named '1'"));
  EXPECT_THAT(read_all(kOpen, dict(text("a.b") + one + text("a") + "}" +
                                   text("b") + one + "s")),
              HasSubstr("two values named 'a.b'"));
  EXPECT_THAT(read_all(kOpen, dict(text("\xff") + one)),
              HasSubstr("valid UTF-8"));
  EXPECT_THAT(read_all(kOpen, dict("]" + one)), HasSubstr("dict key"));
  const auto source = kOpen(in_memory(
      dict(tuple({one, text("x")}) + one + "\x88" + one + "N" + one)));
  EXPECT_EQ(source->tensors()[0].name, "(1, x)");
  EXPECT_EQ(source->tensors()[1].name, "True");
  EXPECT_EQ(source->tensors()[2].name, "None");
}

TEST(TorchMalformed, RefusesWrongArguments) {
  const std::string v2 = global("torch._utils", "_rebuild_tensor_v2");
  const std::string parameter = global("torch._utils", "_rebuild_parameter");
  EXPECT_THAT(read_all(kOpen, saved(call(v2, {"N"}))),
              HasSubstr("a tensor of 1 arguments"));
  EXPECT_THAT(read_all(kOpen, saved(call(parameter, {"N", "\x89", "N"}))),
              HasSubstr("a parameter without tensor"));
  EXPECT_THAT(read_all(kOpen, saved(call(parameter, {ordered_dict()}))),
              HasSubstr("OrderedDict in place of a tensor"));
  EXPECT_THAT(
      read_all(kOpen, saved(call(global("collections", "OrderedDict"), {"N"}))),
      HasSubstr("OrderedDict with arguments"));
  std::string nested = ordered_dict();
  for (int i = 0; i < 6; ++i) nested = call(parameter, {nested});
  EXPECT_THAT(read_all(kOpen, saved(nested)), HasSubstr("deeper than 3"));
}

TEST(TorchMalformed, EveryPrefixIsRefused) {
  expect_prefixes_refused(kOpen, fixture_bytes("torch/float32.pt"));
}

TEST(TorchMalformed, NoFlippedBitCrashes) {
  const std::string bytes = fixture_bytes("torch/float8_e4m3fn.pt");
  const int refused = flip_every_bit(kOpen, bytes, bytes.size());
  EXPECT_GT(refused, 2000);
}

TEST(TorchMalformed, RefusesTarAndBarePickles) {
  std::string tar(1024, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(read_all(kOpen, tar), HasSubstr("torch >= 1.6"));
  EXPECT_THAT(read_all(kOpen, whole("N") + std::string(40, ' ')),
              HasSubstr("no zip end record"));
}

}  // namespace
}  // namespace assay
