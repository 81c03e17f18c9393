// Checkpoints: what comes back, what is refused, and a run that goes on.
#include "assay/te/modules/checkpoint.h"

#include <gmock/gmock.h>

#include <limits>

#include "assay/base/error.h"
#include "assay/te/modules/linear.h"
#include "assay/te/modules/trainable.h"
#include "tests/base/scratch.h"
#include "tests/te/modules/module_test.h"

namespace assay::te {
namespace {

using test::read_file;
using test::Scratch;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;

bool equal_bytes(const Tensor& a, const Tensor& b) {
  const Tensor x = contiguous(a), y = contiguous(b);
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(x.view.data, y.view.data, x.view.bytes().size()) == 0;
}

template <typename Call>
std::string error_of(Code code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// Every bit pattern of one byte, in a tensor of each dtype there is.
std::vector<NamedTensor> one_of_each_dtype() {
  std::vector<NamedTensor> out;
  for (const DTypeTraits& t : kDTypes) {
    if (t.safetensors.empty()) continue;
    Tensor tensor = Tensor::zeros(t.id, {2, 256});
    const auto bytes = static_cast<std::int64_t>(tensor.view.bytes().size());
    for (std::int64_t i = 0; i < bytes && t.id != DType::kBool; ++i)
      tensor.mutable_data()[i] = static_cast<std::byte>(i);
    out.push_back({std::string(t.name), tensor});
  }
  out.push_back({"scalar", filled(DType::kF32, {}, {-0.0})});
  out.push_back(
      {"empty \"quoted\" \xc3\xa9", Tensor::zeros(DType::kF32, {0, 3})});
  return out;
}

TEST(Checkpoint, EverythingComesBackBitByBit) {
  const Scratch folder;
  const auto path = folder / "a.safetensors";
  const auto tensors = one_of_each_dtype();
  const CheckpointMetadata facts = {{"step", "7"}, {"", "\"\n\xe2\x82\xac"}};
  save_checkpoint(path, tensors, facts);
  const Checkpoint c = load_checkpoint(path);
  EXPECT_EQ(c.metadata, facts);
  ASSERT_EQ(c.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(c.tensors[i].name, tensors[i].name);
    EXPECT_TRUE(equal_bytes(c.tensors[i].tensor, tensors[i].tensor))
        << tensors[i].name;
    EXPECT_TRUE(c.tensors[i].tensor.writable ||
                c.tensors[i].tensor.numel() == 0);
  }
  save_checkpoint(path, {});  // over the one that is there
  EXPECT_TRUE(load_checkpoint(path).tensors.empty());
}

TEST(Checkpoint, StridedTensorsAreWrittenRowMajor) {
  const Scratch folder;
  Tensor t = filled(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  t.view.shape = {3, 2};
  t.view.strides = {1, 3};
  save_checkpoint(folder / "a", std::vector<NamedTensor>{{"t", t}});
  const Checkpoint c = load_checkpoint(folder / "a");
  EXPECT_TRUE(equal_bytes(c.tensors[0].tensor,
                          filled(DType::kF32, {3, 2}, {1, 4, 2, 5, 3, 6})));
}

std::string small_checkpoint(const Scratch& folder) {
  const std::vector<NamedTensor> tensors = {
      {"layer.weight", filled(DType::kBF16, {2, 2}, {1, -2, 3, .5})},
      {"layer.bias", filled(DType::kF32, {2}, {0, 7})}};
  save_checkpoint(folder / "good", tensors, {{"step", "3"}});
  return read_file(folder / "good");
}

TEST(Checkpoint, TruncatedAnywhereIsRefused) {
  const Scratch folder;
  const std::string good = small_checkpoint(folder);
  const auto path = folder / "bad";
  write_file(path, good);
  for (std::size_t n = good.size(); n-- > 0;) {
    std::filesystem::resize_file(path, n);
    EXPECT_THROW(load_checkpoint(path), Error) << n;
  }
  write_file(path, good + '\0');
  EXPECT_THROW(load_checkpoint(path), Error);
}

// F52: a replica that loaded a corrupt file was found three steps later. No
// bit may change unnoticed, in the header or in the data.
TEST(Checkpoint, F52_EveryFlippedBitIsAnError) {
  const Scratch folder;
  const std::string good = small_checkpoint(folder);
  const auto path = folder / "bad";
  write_file(path, good);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t at, char byte) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.flush();
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      put(i, static_cast<char>(good[i] ^ 1 << bit));
      EXPECT_THROW(load_checkpoint(path), Error) << i << " bit " << bit;
    }
    put(i, good[i]);
  }
  EXPECT_EQ(load_checkpoint(path).tensors.size(), 2u);
  std::string bad = good;
  bad[good.size() - 1] = static_cast<char>(bad.back() ^ 1);
  write_file(path, bad);
  EXPECT_THAT(error_of(Code::kRefused, [&] { load_checkpoint(path); }),
              AllOf(HasSubstr(path.string()),
                    HasSubstr("tensor \"layer.bias\": corrupt: content hash")));
  bad = good;
  bad[good.size() - 9] = static_cast<char>(bad[good.size() - 9] ^ 64);
  write_file(path, bad);
  EXPECT_THAT(error_of(Code::kRefused, [&] { load_checkpoint(path); }),
              HasSubstr("tensor \"layer.weight\": corrupt"));
}

// Replaces text of the header by one of the same length.
void forge(const std::filesystem::path& path, std::string good,
           const std::string& from, const std::string& to) {
  ASSERT_EQ(from.size(), to.size());
  const std::size_t at = good.find(from);
  ASSERT_NE(at, std::string::npos);
  write_file(path, good.replace(at, from.size(), to));
}

TEST(Checkpoint, HostileFilesAreRefusedByName) {
  const Scratch folder;
  const std::string good = small_checkpoint(folder);
  const auto path = folder / "bad";
  const auto load = [&] {
    return error_of(Code::kRefused, [&] { load_checkpoint(path); });
  };
  // The tensor's entry, not the key of its hash: `":{` follows.
  forge(path, good, "\"layer.bias\":{", "\"layer.bia5\":{");
  EXPECT_THAT(load(), HasSubstr("tensor \"layer.bia5\": no hash"));
  forge(path, good, "\"dtype\":\"F32\"", "\"dtype\":\"I32\"");
  EXPECT_THAT(load(), HasSubstr("tensor \"layer.bias\": corrupt"));
  forge(path, good, "\"step\":\"3\"", "\"step\":\"4\"");
  EXPECT_THAT(load(), HasSubstr("the metadata is corrupt"));
  forge(path, good, "\"assay.checkpoint\":\"1\"", "\"assay.checkpoint\":\"9\"");
  EXPECT_THAT(load(), HasSubstr("checkpoint version \"9\", expected 1"));

  const auto with_header = [&](const std::string& json, std::size_t data) {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i)
      bytes[i] = static_cast<char>(json.size() >> (8 * i));
    write_file(path, bytes + json + std::string(data, 'x'));
  };
  const std::string entry =
      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  with_header("{" + entry + "}", 1);  // a file of someone else's
  EXPECT_THAT(load(), HasSubstr("no \"assay.checkpoint\" in the metadata"));
  with_header("{" + entry + "," +
                  R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
              2);
  EXPECT_THAT(load(), HasSubstr("\"a\""));  // a name twice
  EXPECT_THAT(
      error_of(Code::kUnreadable, [&] { load_checkpoint(folder / "absent"); }),
      HasSubstr("absent"));
}

// A whole tensor cut out of the file, hash and all offsets in order.
TEST(Checkpoint, ATensorThatWasTakenOutIsMissed) {
  const Scratch folder;
  const std::string good = small_checkpoint(folder);
  const std::size_t begin = good.find(",\"layer.bias\":{");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = good.find('}', begin) + 1;
  std::string bad = good.substr(0, good.size() - 8);
  bad.replace(begin, end - begin, end - begin, ' ');
  write_file(folder / "bad", bad);
  EXPECT_THAT(
      error_of(Code::kRefused, [&] { load_checkpoint(folder / "bad"); }),
      HasSubstr("tensor \"layer.bias\": missing from the file"));
}

TEST(Checkpoint, WhatCannotBeWrittenIsAnError) {
  const Scratch folder;
  const Tensor t = Tensor::zeros(DType::kF32, {2});
  const auto save = [&](const std::vector<NamedTensor>& list,
                        const CheckpointMetadata& facts = {}) {
    return error_of(Code::kUsage,
                    [&] { save_checkpoint(folder / "a", list, facts); });
  };
  EXPECT_THAT(save({{"t", t}, {"t", t}}), HasSubstr("\"t\""));
  EXPECT_THAT(save({{"t", Tensor{}}}), HasSubstr("save_checkpoint: t: absent"));
  EXPECT_THAT(save({{"\xff", t}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(save({{"t", t}}, {{"assay.x", ""}}), HasSubstr("\"assay.x\""));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Checkpoint, RestoringIsStrictAndChangesNothingOnError) {
  const Scratch folder;
  const Tensor a = filled(DType::kF32, {2}, {1, 2}),
               b = filled(DType::kBF16, {}, {3});
  save_checkpoint(folder / "c", std::vector<NamedTensor>{{"a", a}, {"b", b}});
  const Checkpoint c = load_checkpoint(folder / "c");
  const auto target = [](std::vector<std::pair<std::string, Tensor>> list) {
    std::vector<NamedTensor> out;
    for (auto& [name, tensor] : list) out.push_back({name, tensor});
    return out;
  };
  const Tensor za = Tensor::zeros(DType::kF32, {2});
  const Tensor zb = Tensor::zeros(DType::kBF16, {});
  const auto error = [&](std::vector<NamedTensor> targets) {
    return error_of(Code::kUsage, [&] { restore(c, targets); });
  };
  EXPECT_THAT(error(target({{"a", za}})), HasSubstr("restore: b: unexpected"));
  EXPECT_THAT(error(target({{"a", za}, {"b", zb}, {"d", za}})),
              HasSubstr("restore: d: missing"));
  EXPECT_THAT(error(target({{"a", za}, {"b", zb}, {"a", za}})),
              HasSubstr("restore: a: missing"));
  EXPECT_THAT(error(target({{"a", za}, {"b", Tensor::zeros(DType::kF16, {})}})),
              HasSubstr("restore: b: bfloat16, expected float16"));
  EXPECT_THAT(
      error(target({{"a", Tensor::zeros(DType::kF32, {2, 1})}, {"b", zb}})),
      HasSubstr("restore: a: shape [2], expected [2, 1]"));
  EXPECT_EQ(at(za, 0), 0);
  auto good = target({{"b", zb}, {"a", za}});
  restore(c, good);
  EXPECT_TRUE(equal_bytes(za, a) && equal_bytes(zb, b));
}

TEST(Checkpoint, SectionsAccountForEveryTensor) {
  const Tensor t = Tensor::zeros(DType::kF32, {1});
  Checkpoint c;
  c.tensors = join_sections(
      {{"model", {{"w", t}, {"ema.w", t}}}, {"model.ema", {{"b", t}}}});
  ASSERT_EQ(c.tensors.size(), 3u);
  EXPECT_EQ(c.tensors[0].name, "model.w");
  const auto parts = sections(c, {"model", "model.ema"});
  ASSERT_EQ(parts.at("model").size(), 1u);
  EXPECT_EQ(parts.at("model")[0].name, "w");
  EXPECT_EQ(parts.at("model.ema")[0].name, "w");
  EXPECT_EQ(parts.at("model.ema")[1].name, "b");
  EXPECT_THAT(error_of(Code::kUsage, [&] { sections(c, {"modelx"}); }),
              HasSubstr("model.w: unexpected"));
  EXPECT_THAT(error_of(Code::kUsage,
                       [&] {
                         sections(c, {"model", "opt"});
                       }),
              HasSubstr("sections: opt: missing"));
}

TEST(Checkpoint, TrainingStateGoesThroughMetadata) {
  const TrainingState state{
      12,
      "DelayedScaling",
      {{"", {std::numeric_limits<std::uint64_t>::max(), 3}},
       {"model-parallel-rng", {5, 1ull << 60}}}};
  const TrainingState back = training_state(to_metadata(state));
  EXPECT_EQ(back.step, 12);
  EXPECT_EQ(back.recipe, state.recipe);
  EXPECT_EQ(back.random, state.random);
  auto broken = to_metadata(state);
  broken["random."] = "12";
  EXPECT_THAT(error_of(Code::kUsage, [&] { training_state(broken); }),
              HasSubstr("random.: \"12\", expected a seed and a count"));
  broken["random."] = "1 99999999999999999999";  // leaves 64 bits
  EXPECT_THAT(error_of(Code::kUsage, [&] { training_state(broken); }),
              HasSubstr("expected a number"));
  broken = to_metadata(state);
  broken["step"] = "-1";
  EXPECT_THAT(error_of(Code::kUsage, [&] { training_state(broken); }),
              HasSubstr("step: -1, expected >= 0"));
  broken.erase("step");
  EXPECT_THAT(error_of(Code::kUsage, [&] { training_state(broken); }),
              HasSubstr("training_state: step: missing"));
}

// A layer under a recipe that learns, and all that a checkpoint of it holds.
struct Training {
  Recipe recipe;
  std::optional<QuantizedModelInit> scope;  // around the layer's making
  Linear layer{64, 32, {.params_dtype = DType::kBF16}};
  FusedAdam adam;
  std::int64_t step = 0;

  explicit Training(Recipe r, bool quantized = false)
      : recipe(std::move(r)),
        scope(quantized
                  ? std::optional<QuantizedModelInit>(std::in_place, recipe)
                  : std::nullopt),
        adam(groups(), {.lr = .01,
                        .master_weights = true,
                        .exp_avg_dtype = DType::kBF16}) {
    scope.reset();
  }

  std::vector<ParameterGroup> groups() {
    std::vector<ParameterGroup> out(1);
    out[0].parameters = trainable(layer);
    return out;
  }

  void advance(int steps) {
    for (int k = 0; k < steps; ++k) {
      // The data are a function of the random state too.
      const std::uint64_t seed = next_init_seed();
      const Tensor x = normal_tensor(DType::kBF16, {64, 64}, seed);
      const Tensor dy = normal_tensor(DType::kBF16, {64, 32}, seed + 1, .1);
      Autocast autocast(recipe);
      Linear::Context context;
      layer.forward(x, &context);
      layer.zero_grad();
      layer.backward(dy, context);
      std::vector<Tensor> grads = gradients(layer);
      adam.step(grads);
      ++step;
    }
  }

  void save(const std::filesystem::path& path) {
    auto all = with_prefix("model", layer.state_dict());
    for (NamedTensor& t : with_prefix("optimizer", adam.state_dict()))
      all.push_back(std::move(t));
    save_checkpoint(
        path, all,
        to_metadata({step, std::string(recipe_name(recipe)), random_states()}));
  }

  void load(const std::filesystem::path& path) {
    const Checkpoint c = load_checkpoint(path);
    const auto parts = sections(c, {"model", "optimizer"});
    layer.load_state_dict(parts.at("model"));
    adam.load_state_dict(parts.at("optimizer"));
    const TrainingState state = training_state(c.metadata);
    EXPECT_EQ(state.recipe, recipe_name(recipe));
    step = state.step;
    set_random_states(state.random);
  }
};

// Codes, scales, histories, masters and random numbers: the bits of a run
// without a break.
void expect_resumes(const Recipe& recipe, bool quantized) {
  SCOPED_TRACE(std::string(recipe_name(recipe)) +
               (quantized ? ", stored quantised" : ""));
  const Scratch folder;
  manual_seed(11);
  Training whole(recipe, quantized);
  whole.advance(4);
  whole.save(folder / "four");
  whole.advance(3);
  whole.save(folder / "whole");
  manual_seed(99);
  Training resumed(recipe, quantized);
  resumed.load(folder / "four");
  resumed.advance(3);
  resumed.save(folder / "resumed");
  EXPECT_EQ(read_file(folder / "whole"), read_file(folder / "resumed"));
  EXPECT_NE(read_file(folder / "four"), read_file(folder / "resumed"));
}

TEST(Checkpoint, AResumedRunIsTheRunWithoutABreak) {
  const Recipe recipes[] = {
      recipe::DelayedScaling{.amax_history_len = 4},
      recipe::Float8CurrentScaling{}, recipe::Float8BlockScaling{},
      recipe::MXFP8BlockScaling{},
      recipe::NVFP4BlockScaling{.disable_stochastic_rounding = true}};
  for (const Recipe& recipe : recipes)
    for (bool quantized : {false, true}) expect_resumes(recipe, quantized);
}

// F07: one size for ever, the length of the histories too.
TEST(Checkpoint, F07_TheFileDoesNotGrow) {
  const Scratch folder;
  manual_seed(11);
  Training training(recipe::DelayedScaling{.amax_history_len = 4});
  training.advance(1);
  training.save(folder / "1");
  training.advance(999);
  training.save(folder / "1000");
  EXPECT_EQ(training.step, 1000);
  EXPECT_EQ(std::filesystem::file_size(folder / "1"),
            std::filesystem::file_size(folder / "1000"));
  int histories = 0;
  for (const NamedTensor& t : load_checkpoint(folder / "1000").tensors)
    if (t.name.find("amax_history_") != std::string::npos) {
      EXPECT_EQ(t.tensor.shape()[0], 4) << t.name;
      ++histories;
    }
  EXPECT_EQ(histories, 2);
}

}  // namespace
}  // namespace assay::te
