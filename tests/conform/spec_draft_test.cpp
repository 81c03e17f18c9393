// Drafts of specs: parse once their gaps are filled, and not before.
#include "assay/conform/spec_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "assay/base/error.h"
#include "assay/conform/cases.h"
#include "assay/conform/values.h"

namespace assay::conform {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(ASSAY_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

ApiManifest nvte() {
  const std::string text = file_text("specs/api/nvte-2.20.json");
  return parse_api_manifest(parse_json(text, "nvte"), "nvte");
}

std::string replaced(std::string text, const std::string& from,
                     const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Every gap filled with something that stands in all those places.
std::string filled(std::string draft) {
  draft = replaced(draft, "constraints:\n  - '?'", "constraints: []");
  draft = replaced(draft, "class: '?'", "class: gemm");
  draft = replaced(draft, "invalid:\n  '?': {}\n", "");
  draft = replaced(draft, "shape: ['?']", "shape: [tokens]");
  draft = replaced(draft, "summary: '?'", "summary: s");
  return replaced(draft, "'?'", "42");
}

TEST(SpecDraft, OfAClassHasItsParametersWeightsAndGaps) {
  const std::string draft =
      draft_spec(nvte(), "transformer_engine.pytorch.Linear");
  EXPECT_THAT(draft, HasSubstr("module: linear\n"));
  EXPECT_THAT(draft, HasSubstr("  - transformer_engine.pytorch.Linear\n"));
  EXPECT_THAT(draft, HasSubstr("  in_features: ['?']\n"));
  EXPECT_THAT(draft, HasSubstr("  bias: [true, false]\n"));
  EXPECT_THAT(draft, HasSubstr("  weight: {shape: ['?'], dtype: dtype"));
  EXPECT_THAT(draft, HasSubstr("grad.weight"));
  EXPECT_THAT(draft, HasSubstr("Left out: "));
  EXPECT_THAT(draft, Not(HasSubstr("  tp_group:")));
  EXPECT_THAT(draft, Not(HasSubstr("  ub_overlap_ag:")));
}

TEST(SpecDraft, OfAFunctionHasItsTensorsAsInputs) {
  const std::string draft =
      draft_spec(nvte(), "transformer_engine.pytorch.permutation.moe_permute");
  EXPECT_THAT(draft, HasSubstr("\n  inp: {shape"));
  EXPECT_THAT(draft, HasSubstr("\n  routing_map: {shape"));
  EXPECT_THAT(draft, HasSubstr("\n  num_out_tokens: ['?']"));
  EXPECT_THAT(draft, HasSubstr("\n  map_type: ['mask', '?']"));
  EXPECT_THAT(draft, HasSubstr("\n  max_token_num: [-1, '?']"));
}

TEST(SpecDraft, IsRefusedUntilItsGapsAreFilled) {
  for (const char* api : {"transformer_engine.pytorch.Linear",
                          "transformer_engine.pytorch.LayerNormMLP",
                          "transformer_engine.pytorch.moe_permute",
                          "transformer_engine.common.recipe.DelayedScaling"}) {
    const std::string draft = draft_spec(nvte(), api);
    try {
      parse_spec(draft, "d.yaml");
      ADD_FAILURE() << "no gap in\n" << draft;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("is a gap of a draft")) << draft;
    }
    const Spec spec = parse_spec(filled(draft), "d.yaml");
    EXPECT_FALSE(make_cases(spec, Tier::kSmall).empty()) << api;
  }
}

TEST(SpecDraft, NamesTheNearestOfAnUnknownName) {
  try {
    draft_spec(nvte(), "transformer_engine.pytorch.Liner");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("did you mean transformer_engine.pytorch.Linear?"));
  }
}

// The document shows a spec with every key, and every kind of values.
TEST(ConformDocument, ShowsASpecThatParsesAndEveryKindOfValues) {
  const std::string text = file_text("docs/conform.md");
  const std::size_t begin = text.find("```yaml\n") + 8;
  const Spec spec = parse_spec(
      text.substr(begin, text.find("```\n", begin) - begin), "docs/conform.md");
  EXPECT_EQ(to_json(List(spec.parameters.at(0).small)),
            "[0, 31, 32, 33, 127, 128, 129, 200]");
  EXPECT_GT(make_cases(spec, Tier::kReal).size(), 3u);
  for (const Case& c : make_cases(spec, Tier::kSmall))
    if (!c.invalid) make_inputs(spec, c);
  for (const ValueKind& kind : value_kinds()) {
    const std::string name = "`" + std::string(kind.name) + "`";
    const std::size_t row = text.find("| " + name);
    const bool shared = kind.name == "ones";
    EXPECT_TRUE(row != std::string::npos ||
                (shared && text.find("`zeros`, `ones`") != std::string::npos))
        << kind.name;
    if (row == std::string::npos) continue;
    const std::string line = text.substr(row, text.find('\n', row) - row);
    for (const std::string_view option : kind.options)
      EXPECT_THAT(line, HasSubstr("`" + std::string(option) + "`"));
  }
}

}  // namespace
}  // namespace assay::conform
