// docs/state-dict.md against the modules it describes, both ways: every table
// has a module, every module a table, every row a tensor and every tensor a
// row.
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "assay/te/modules/embedding.h"
#include "assay/te/modules/lm_head.h"
#include "assay/te/modules/moe.h"
#include "assay/te/modules/transformer_layer.h"
#include "tests/te/modules/module_test.h"

namespace assay::te {
namespace {

constexpr std::int64_t kHidden = 16, kFfn = 24, kHeads = 4, kGroups = 2,
                       kVocab = 10, kPositions = 6, kHistory = 5;

// A row as text, shapes in numbers: "weight [24, 16] float32 cut 0".
using Rows = std::multiset<std::string>;

std::string trimmed(std::string text) {
  const auto blank = " `";
  text.erase(0, text.find_first_not_of(blank));
  text.erase(text.find_last_not_of(blank) + 1);
  return text;
}

// "Q+2K": a sum of symbols, each with a factor or alone.
std::int64_t evaluated(const std::string& expression) {
  const std::map<char, std::int64_t> symbols = {
      {'H', kHidden}, {'F', kFfn},
      {'N', kHeads},  {'D', kHidden / kHeads},
      {'Q', kHidden}, {'K', kGroups * kHidden / kHeads},
      {'V', kVocab},  {'S', kPositions},
      {'L', kHistory}};
  std::int64_t sum = 0;
  std::stringstream terms(expression);
  for (std::string term; std::getline(terms, term, '+');) {
    std::int64_t factor = 0;
    std::size_t i = 0;
    for (; i < term.size() && std::isdigit(term[i]); ++i)
      factor = 10 * factor + (term[i] - '0');
    if (i == 0) factor = 1;
    sum += i < term.size() ? factor * symbols.at(term[i]) : factor;
  }
  return sum;
}

std::string row_of(const std::string& name, const Shape& shape,
                   const std::string& dtype, const std::string& cut) {
  return name + " " + to_string(shape) + " " + dtype + " cut " + cut;
}

// The tables under headings of the second level, in the order name, shape,
// dtype, cut.
std::map<std::string, Rows> documented() {
  std::ifstream file(std::string(ASSAY_TEST_DATA) +
                     "/../../docs/state-dict.md");
  EXPECT_TRUE(file.good());
  std::map<std::string, Rows> sections;
  std::string section;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) {
      section = line.substr(3);
      EXPECT_FALSE(sections.contains(section)) << section << " comes twice";
      sections[section];
    }
    if (section.empty() || !line.starts_with("| `")) continue;
    std::stringstream columns(line.substr(1));
    std::vector<std::string> cells;
    for (std::string cell; std::getline(columns, cell, '|');)
      cells.push_back(trimmed(cell));
    EXPECT_EQ(cells.size(), 4u) << line;
    Shape shape;
    std::stringstream dims(cells[1].substr(1, cells[1].size() - 2));
    for (std::string dim; std::getline(dims, dim, ',');)
      shape.push_back(evaluated(trimmed(dim)));
    sections[section].insert(
        row_of(cells[0], shape, cells[2] == "params" ? "bfloat16" : cells[2],
               cells[3]));
  }
  return sections;
}

Rows actual(Module& module) {
  std::map<std::string, const Parameter*> parameters;
  for (const NamedParameter& p : module.parameters())
    parameters[p.name] = p.parameter;
  Rows rows;
  for (const NamedTensor& t : module.state_dict()) {
    const auto p = parameters.find(t.name);
    const int cut = p == parameters.end() ? -1 : p->second->partition_dim;
    rows.insert(row_of(t.name, t.tensor.shape(),
                       std::string(traits(t.tensor.dtype()).name),
                       cut < 0 ? "-" : std::to_string(cut)));
  }
  return rows;
}

const TensorParallel kGroup = {self_communicator(), false};

template <typename Options>
Options in_bf16(Options options = {}) {
  options.params_dtype = DType::kBF16;
  return options;
}

template <typename Options>
Options parallel() {
  Options options = in_bf16<Options>();
  options.tp = kGroup;
  if constexpr (requires { options.set_parallel_mode; }) {
    options.set_parallel_mode = true;
  } else if constexpr (requires { options.parallel_mode; }) {
    options.parallel_mode = ParallelMode::kColumn;
  }
  if constexpr (requires { options.num_gqa_groups; })
    options.num_gqa_groups = kGroups;
  return options;
}

std::unique_ptr<Module> linear_with_history() {
  auto m = std::make_unique<Linear>(kHidden, kFfn, parallel<LinearOptions>());
  recipe::DelayedScaling delayed;
  delayed.amax_history_len = kHistory;
  m->init_quantizers(std::make_shared<const Recipe>(delayed));
  return m;
}

std::unique_ptr<Module> attention(
    const std::function<void(MultiheadAttentionOptions&)>& change) {
  auto o = parallel<MultiheadAttentionOptions>();
  change(o);
  return std::make_unique<MultiheadAttention>(kHidden, kHeads, o);
}

std::unique_ptr<Module> layer(
    const std::function<void(TransformerLayerOptions&)>& change) {
  auto o = parallel<TransformerLayerOptions>();
  change(o);
  return std::make_unique<TransformerLayer>(kHidden, kFfn, kHeads, o);
}

using Make = std::function<std::unique_ptr<Module>()>;

std::map<std::string, Make> modules() {
  std::map<std::string, Make> m;
  m["LayerNorm"] = [] {
    return std::make_unique<LayerNorm>(kHidden, in_bf16<NormModuleOptions>());
  };
  m["RMSNorm"] = [] {
    return std::make_unique<RMSNorm>(kHidden, in_bf16<NormModuleOptions>());
  };
  m["Linear"] = [] {
    return std::make_unique<Linear>(kHidden, kFfn, parallel<LinearOptions>());
  };
  m["Linear, split"] = [] {
    auto o = parallel<LinearOptions>();
    o.parameters_split = {{"query", 16}, {"key", 8}, {"value", 8}};
    return std::make_unique<Linear>(kHidden, 32, o);
  };
  m["Linear, delayed scaling"] = linear_with_history;
  m["LayerNormLinear"] = [] {
    return std::make_unique<LayerNormLinear>(kHidden, kFfn,
                                             parallel<NormLinearOptions>());
  };
  m["LayerNormMLP"] = [] {
    auto o = in_bf16<LayerNormMLPOptions>();
    o.tp = kGroup;
    o.set_parallel_mode = true;
    return std::make_unique<LayerNormMLP>(kHidden, kFfn, o);
  };
  m["LayerNormMLP, gated"] = [] {
    auto o = in_bf16<LayerNormMLPOptions>();
    o.tp = kGroup;
    o.set_parallel_mode = true;
    o.activation = Activation::kSwiglu;
    auto made = std::make_unique<LayerNormMLP>(kHidden, kFfn, o);
    EXPECT_EQ(made->fc1_weight().partition_stride, 2);
    return made;
  };
  m["GroupedLinear"] = [] {
    return std::make_unique<GroupedLinear>(2, kHidden, kFfn,
                                           parallel<GroupedLinearOptions>());
  };
  m["GroupedLinear, stacked"] = [] {
    auto o = parallel<GroupedLinearOptions>();
    o.single_grouped_weight = o.single_grouped_bias = true;
    return std::make_unique<GroupedLinear>(2, kHidden, kFfn, o);
  };
  m["MoELayer"] = [] {
    auto o = in_bf16<MoEOptions>();
    o.num_experts = 2;
    return std::make_unique<MoELayer>(kHidden, kFfn, o);
  };
  m["DotProductAttention"] = [] {
    DotProductAttentionOptions o;
    o.softmax_type = SoftmaxType::kLearnable;
    o.tp = kGroup;
    return std::make_unique<DotProductAttention>(kHeads, 4, o);
  };
  m["MultiheadAttention"] = [] { return attention([](auto&) {}); };
  m["MultiheadAttention, fused"] = [] {
    return attention([](auto& o) {
      o.fuse_qkv_params = o.input_layernorm = true;
      o.qk_norm_type = QkNormType::kRMSNorm;
    });
  };
  m["MultiheadAttention, cross"] = [] {
    return attention([](auto& o) { o.attention_type = AttentionType::kCross; });
  };
  m["TransformerLayer"] = [] { return layer([](auto&) {}); };
  m["TransformerLayer, fused"] = [] {
    return layer(
        [](auto& o) { o.fuse_qkv_params = o.output_layernorm = true; });
  };
  m["TransformerLayer, decoder"] = [] {
    return layer([](auto& o) { o.layer_type = LayerType::kDecoder; });
  };
  m["TokenEmbedding"] = [] {
    auto o = parallel<TokenEmbeddingOptions>();
    o.max_sequence_length = kPositions;
    return std::make_unique<TokenEmbedding>(kVocab, kHidden, o);
  };
  m["LmHead"] = [] {
    return std::make_unique<LmHead>(kHidden, kVocab, parallel<LmHeadOptions>());
  };
  return m;
}

TEST(StateDict, IsWhatTheDocumentSays) {
  const auto tables = documented();
  const auto made = modules();
  for (const auto& [name, rows] : tables)
    EXPECT_TRUE(made.contains(name)) << name << " is documented alone";
  for (const auto& [name, make] : made) {
    ASSERT_TRUE(tables.contains(name)) << name << " is not documented";
    EXPECT_EQ(actual(*make()), tables.at(name)) << name;
  }
}

// What one layer saves another loads, and computes the same.
TEST(StateDict, GoesFromOneLayerToAnother) {
  TransformerLayerOptions o;
  o.hidden_dropout = o.attention_dropout = 0;
  TransformerLayer a(kHidden, kFfn, kHeads, o), b(kHidden, kFfn, kHeads, o);
  const Tensor x = normal_tensor(DType::kF32, {3, 2, kHidden}, 1);
  EXPECT_FALSE(same_bits(a.forward(x), b.forward(x)));
  b.load_state_dict(a.state_dict());
  EXPECT_TRUE(same_bits(a.forward(x), b.forward(x)));
}

}  // namespace
}  // namespace assay::te
