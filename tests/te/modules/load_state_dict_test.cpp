// State dicts: names, and that what cannot be loaded changes nothing.
#include <algorithm>
#include <functional>

#include "tests/te/modules/linear_step.h"

namespace assay::te {
namespace {

constexpr DType kBF16 = DType::kBF16;

recipe::DelayedScaling delayed() {
  recipe::DelayedScaling r;
  r.amax_history_len = 4;
  return r;
}

class Model : public Module {
 public:
  Model() : Module("Model", "") {
    add_child("up", up);
    add_child("down", down);
  }
  // Gives every layer histories.
  void train_step() {
    for (Linear* layer : {&up, &down})
      run(*layer, delayed(), normal_tensor(kBF16, {8, layer->in_features()}, 1),
          normal_tensor(kBF16, {8, layer->out_features()}, 2));
  }
  Linear up{16, 32, bf16()}, down{32, 16, bf16()};
};

std::vector<NamedTensor> copy_of_state(Module& m) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : m.state_dict())
    out.push_back({t.name, copy_of(t.tensor)});
  return out;
}

// In any order: state that waits for the first pass is sorted by name.
void expect_same_state(std::vector<NamedTensor> a, std::vector<NamedTensor> b) {
  for (auto* state : {&a, &b})
    std::sort(state->begin(), state->end(),
              [](const auto& p, const auto& q) { return p.name < q.name; });
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(same_bits(a[i].tensor, b[i].tensor)) << a[i].name;
  }
}

TEST(LoadStateDict, NamesAreThoseOfNvte) {
  Model model;
  model.train_step();
  std::vector<std::string> names;
  for (const NamedTensor& t : model.state_dict()) names.push_back(t.name);
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "up.weight", "up.bias", "up._extra_state.scale_fwd",
          "up._extra_state.amax_history_fwd", "up._extra_state.scale_bwd",
          "up._extra_state.amax_history_bwd", "down.weight", "down.bias",
          "down._extra_state.scale_fwd", "down._extra_state.amax_history_fwd",
          "down._extra_state.scale_bwd",
          "down._extra_state.amax_history_bwd"}));
}

TEST(LoadStateDict, RoundTripIsExact) {
  Model a, b;
  a.train_step();
  b.train_step();
  const auto saved = copy_of_state(a);
  b.load_state_dict(saved);
  expect_same_state(copy_of_state(b), saved);
}

struct Fault {
  std::string what, message;
  std::function<void(std::vector<NamedTensor>&)> make;
};

std::size_t index_of(const std::vector<NamedTensor>& s, const std::string& n) {
  for (std::size_t i = 0; i < s.size(); ++i)
    if (s[i].name == n) return i;
  ADD_FAILURE() << n;
  return 0;
}

std::vector<Fault> faults() {
  const auto at_name = [](std::string name, auto change) {
    return [=](std::vector<NamedTensor>& s) { change(s[index_of(s, name)]); };
  };
  const auto drop = [](std::string name) {
    return [=](std::vector<NamedTensor>& s) {
      s.erase(s.begin() + static_cast<std::ptrdiff_t>(index_of(s, name)));
    };
  };
  return {
      {"missing", "load_state_dict: down.bias: missing, expected a tensor",
       drop("down.bias")},
      {"unexpected",
       "load_state_dict: down.gamma: unexpected, expected names of this model",
       [](auto& s) {
         s.push_back({"down.gamma", s[0].tensor});
       }},
      {"twice",
       "load_state_dict: up.bias: twice, expected one tensor of a name",
       [](auto& s) { s.push_back(s[1]); }},
      {"dtype", "load_state_dict: down.weight: float32, expected bfloat16",
       at_name("down.weight",
               [](NamedTensor& t) {
                 t.tensor = Tensor::zeros(DType::kF32, t.tensor.shape());
               })},
      {"shape",
       "load_state_dict: down.weight: shape [32, 16], expected [16, 32]",
       at_name("down.weight",
               [](NamedTensor& t) {
                 t.tensor = Tensor::zeros(kBF16, {32, 16});
               })},
      {"history without scale",
       "Linear: _extra_state.scale_bwd: missing, expected FP8 metadata",
       drop("down._extra_state.scale_bwd")},
      {"slots",
       "Linear: _extra_state.amax_history_fwd: shape [4, 6], expected [4, 3]",
       at_name("down._extra_state.amax_history_fwd",
               [](NamedTensor& t) {
                 t.tensor = Tensor::zeros(DType::kF32, {4, 6});
               })},
      {"rank",
       "Linear: _extra_state.amax_history_bwd: shape [8], expected 2 "
       "dimensions",
       at_name(
           "down._extra_state.amax_history_bwd",
           [](NamedTensor& t) { t.tensor = Tensor::zeros(DType::kF32, {8}); })},
      {"dtype of a scale",
       "Linear: _extra_state.scale_fwd: float64, expected float32",
       at_name(
           "down._extra_state.scale_fwd",
           [](NamedTensor& t) { t.tensor = Tensor::zeros(DType::kF64, {3}); })},
      {"unknown state",
       "Linear: _extra_state.recipe: unexpected, expected FP8 metadata",
       [](auto& s) {
         s.push_back(
             {"down._extra_state.recipe", Tensor::zeros(DType::kF32, {1})});
       }},
      {"all state gone",
       "Linear: _extra_state.scale_fwd: missing, expected FP8 metadata",
       [](auto& s) {
         std::erase_if(s, [](const NamedTensor& t) {
           return t.name.starts_with("down._extra_state");
         });
       }},
  };
}

TEST(LoadStateDict, WhatIsRefusedChangesNothing) {
  Model source, model;
  source.train_step();
  model.train_step();
  for (const NamedParameter& p : source.parameters())
    std::memset(p.parameter->value->mutable_data(), 0x3f,
                p.parameter->value->view.bytes().size());
  store_from_double(DType::kF32, 7,
                    extra(source.up, "scale_fwd").mutable_data(), 0);
  const auto before = copy_of_state(model);
  for (const Fault& fault : faults()) {
    SCOPED_TRACE(fault.what);
    auto state = copy_of_state(source);
    fault.make(state);
    EXPECT_EQ(message_of([&] { model.load_state_dict(state); }), fault.message);
    expect_same_state(copy_of_state(model), before);
  }
  model.load_state_dict(copy_of_state(source));
  EXPECT_EQ(extra(model.up, "scale_fwd").data<float>()[0], 7);
}

TEST(LoadStateDict, HistoriesOfAnotherLengthAreAdapted) {
  Model source, model;
  source.train_step();
  const auto state = copy_of_state(source);
  recipe::DelayedScaling longer = delayed();
  longer.amax_history_len = 6;
  const Tensor x = normal_tensor(kBF16, {8, 16}, 1);
  model.up.init_quantizers(std::make_shared<const Recipe>(longer));
  model.load_state_dict(state);
  const Tensor loaded = extra(model.up, "amax_history_fwd");
  EXPECT_EQ(loaded.shape(), (Shape{6, 3}));
  const Tensor saved = extra(source.up, "amax_history_fwd");
  for (int i = 0; i < 18; ++i)
    EXPECT_EQ(at(loaded, i), i < 12 ? at(saved, i) : 0);
}

// Kept for the pass that makes histories: it must not be a recipe of another
// shape, and one without histories forgets them.
TEST(LoadStateDict, StateWaitsForTheFirstPass) {
  Model source, model;
  source.train_step();
  const auto state = copy_of_state(source);
  model.load_state_dict(state);
  EXPECT_TRUE(
      same_bits(extra(model.up, "scale_fwd"), extra(source.up, "scale_fwd")));
  const Tensor x = normal_tensor(kBF16, {8, 16}, 1);
  recipe::Custom custom;
  custom.qfactory = [](const QuantizerRole&) -> recipe::QuantizerRequest {
    return recipe::DelayedScalingRequest{};
  };
  EXPECT_NE(message_of([&] {
              Autocast autocast{custom};
              model.up.forward(x);
            }),
            "no error");
  {
    Autocast autocast{delayed()};
    model.up.forward(x);  // still there
  }
  EXPECT_TRUE(
      same_bits(extra(model.up, "scale_fwd"), extra(source.up, "scale_fwd")));
  {
    Autocast autocast{recipe::Float8CurrentScaling{}};
    model.down.forward(normal_tensor(kBF16, {8, 32}, 1));
  }
  EXPECT_TRUE(model.down.extra_state().empty());
}

TEST(LoadStateDict, LoadedBytesAreCopied) {
  Model source, model;
  source.train_step();
  auto state = copy_of_state(source);
  model.load_state_dict(state);
  for (NamedTensor& t : state)
    std::memset(t.tensor.mutable_data(), 0xff, t.tensor.view.bytes().size());
  const auto loaded = copy_of_state(model), expected = copy_of_state(source);
  expect_same_state(loaded, expected);
}

TEST(LoadStateDict, StridedTensorsAreLoadedAsTheyAre) {
  Linear layer(2, 3);
  Tensor w = filled(DType::kF32, {2, 3}, {0, 1, 2, 3, 4, 5});
  w.view.shape = {3, 2};
  w.view.strides = {1, 3};
  layer.load_state_dict(std::vector<NamedTensor>{
      {"weight", w}, {"bias", Tensor::zeros(DType::kF32, {3})}});
  const std::vector<double> expected = {0, 3, 1, 4, 2, 5};
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(at(*layer.weight().value, i), expected[i]);
}

TEST(ModuleTree, NamesPathsAndTypes) {
  Model model;
  model.name_tree("decoder.0");
  EXPECT_EQ(model.up.name(), "decoder.0.up");
  EXPECT_EQ(model.up.type(), "Linear");
  EXPECT_EQ(message_of([&] { model.up.parameter("gamma"); }),
            "decoder.0.up: parameter: \"gamma\", expected one of weight, bias");
  const auto modules = model.modules();
  ASSERT_EQ(modules.size(), 3u);
  EXPECT_EQ(modules[0].name, "");
  EXPECT_EQ(modules[2].name, "down");
}

}  // namespace
}  // namespace assay::te
