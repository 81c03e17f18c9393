#include "tests/report/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace assay {
namespace {

// A small generator of its own, so that the samples never change.
class Sequence {
 public:
  double uniform() {  // [0, 1)
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  double f32(double low, double high) {
    return static_cast<float>(low + (high - low) * uniform());
  }

 private:
  std::uint64_t state_ = 42;
};

RowSide side(std::string name, Shape shape, TensorStatistics stats) {
  RowSide s;
  s.present = true;
  s.name = std::move(name);
  s.facts.dtype = DType::kF32;
  s.facts.dtype_text = "torch.float32";
  s.facts.shape = std::move(shape);
  s.facts.requires_grad = false;
  s.stats = stats;
  s.file = s.name + ".pt";
  return s;
}

std::unique_ptr<ErrorStats> equal_stats(const TensorStatistics& stats,
                                        std::int64_t count) {
  auto s = std::make_unique<ErrorStats>();
  s->count = s->finite = count;
  s->bitwise_equal = true;
  s->golden =
      s->target = {0, 0, 0, *stats.min, *stats.max, *stats.mean, *stats.norm};
  s->sqnr_db = INFINITY;
  s->cosine = 1;
  return s;
}

std::unique_ptr<ErrorStats> differing_stats(const TensorStatistics& stats,
                                            std::int64_t count, double error) {
  auto s = equal_stats(stats, count);
  s->bitwise_equal = false;
  s->mismatches = count / 2;
  s->norm_l2 = error;
  s->sqnr_db = -20 * std::log10(error);
  s->max_abs = 4 * error;
  s->max_abs_index = count / 3;
  s->golden_at_max_abs = 0.25;
  s->target_at_max_abs = 0.25 + s->max_abs;
  s->mean_abs = error / 2;
  s->max_rel = 16 * error;
  s->max_rel_index = count / 3;
  s->mean_rel = error;
  s->rmse = error;
  s->bias = -error / 10;
  s->alpha = 1 - error / 5;
  s->cosine = 1 - error * error / 2;
  return s;
}

// Log-normal shaped counts around the error's exponent.
void fill(std::array<std::int64_t, 64>& histogram, double center,
          std::int64_t count) {
  for (int b = 0; b < 64; ++b) {
    const double x = (b - center) / 3;
    histogram[b] = static_cast<std::int64_t>(static_cast<double>(count) * 0.13 *
                                             std::exp(-x * x / 2));
  }
}

void add_detail(ErrorStats& s) {
  auto d = std::make_unique<DetailStats>();
  d->ulp_max = s.max_rel * 0x1p23;
  d->ulp_mean = s.mean_rel * 0x1p23;
  d->ulp_max_index = s.max_rel_index;
  d->share_rel_over_1e3 = std::min(1.0, s.norm_l2 * 20);
  d->share_rel_over_5e3 = std::min(1.0, s.norm_l2 * 4);
  fill(d->rel_histogram, 64 + std::log2(s.mean_rel), s.count);
  fill(d->ulp_histogram, std::max(1.0, std::log2(d->ulp_mean)), s.count);
  d->block32 = {s.max_abs_index / 32 * 32, 3 * s.rmse, 0.5};
  d->block128 = {s.max_abs_index / 128 * 128, 2 * s.rmse, 0.5};
  d->over_bound = s.count / 50;
  d->worst_excess = 12;
  d->worst_excess_index = s.max_abs_index;
  s.detail = std::move(d);
}

Reason reason(std::string criterion, std::string text, double figure,
              double bound, std::int64_t index = -1, bool note = false) {
  return {std::move(criterion), std::move(text), figure, bound, index, note};
}

void count_row(Counts& counts, const Row& row) {
  switch (row.verdict) {
    case Verdict::kMatch:
      ++counts.match;
      break;
    case Verdict::kMismatch:
      ++counts.mismatch;
      break;
    case Verdict::kIncomplete:
      ++counts.incomplete;
      break;
    case Verdict::kEmpty:
      ++counts.empty;
      break;
  }
  if (row.origin == Origin::kBorn) ++counts.born;
  if (row.origin == Origin::kInherited) ++counts.inherited;
}

Verdict worse(Verdict a, Verdict b) {
  const auto order = [](Verdict v) {
    return v == Verdict::kMismatch     ? 3
           : v == Verdict::kIncomplete ? 2
           : v == Verdict::kMatch      ? 1
                                       : 0;
  };
  return order(a) >= order(b) ? a : b;
}

// Adds operators and rows to the last group.
class Builder {
 public:
  explicit Builder(Comparison& c) : c_(c) {}

  OpRow& op(std::string name, std::int32_t parent = -1) {
    OpRow op;
    op.name = std::move(name);
    op.parent = parent;
    op.first_row = static_cast<std::uint32_t>(c_.rows.size());
    op.verdict = Verdict::kEmpty;
    group().ops.push_back(std::move(op));
    return group().ops.back();
  }

  // Call finish_row once the row's verdict is set.
  Row& row(Role role, const std::string& leaf, Shape shape,
           const TensorStatistics& stats) {
    Row row;
    row.group = static_cast<std::uint32_t>(c_.groups.size() - 1);
    row.op = static_cast<std::uint32_t>(group().ops.size() - 1);
    row.role = role;
    const std::string name = group().ops.back().name + "." + leaf;
    row.golden = side(name, shape, stats);
    row.target = side(name, std::move(shape), stats);
    row.verdict = Verdict::kMatch;
    row.evidence = Evidence::kTensor;
    c_.rows.push_back(std::move(row));
    return c_.rows.back();
  }

  void finish_row() {
    const Row& row = c_.rows.back();
    OpRow& op = group().ops.back();
    ++op.row_count;
    op.verdict = worse(op.verdict, row.verdict);
    count_row(c_.counts, row);
  }

 private:
  Group& group() { return c_.groups.back(); }
  Comparison& c_;
};

constexpr TensorStatistics kStats = {3.25, -2.5, 0.125, 28.5};

void matching_row(Builder& b, Role role, const std::string& leaf,
                  const Shape& shape) {
  Row& row = b.row(role, leaf, shape, kStats);
  row.stats = equal_stats(kStats, *checked_numel(shape));
  b.finish_row();
}

void born_row(Builder& b) {
  Row& row = b.row(Role::kOutput, "output.0", {4, 32, 256}, kStats);
  row.stats = differing_stats(kStats, 32768, 0x1p-12);
  row.stats->max_abs = 4.7e-4;
  row.stats->max_abs_index = (3 * 32 + 17) * 256 + 201;
  row.stats->golden_at_max_abs = -1.4333e-06;
  row.stats->target_at_max_abs = -2.2918e-07;
  row.stats->bias = -2.1e-05;
  row.stats->alpha = 0.9998;
  add_detail(*row.stats);
  row.target.stats.max = 3.250244140625;
  row.verdict = Verdict::kMismatch;
  row.origin = Origin::kBorn;
  row.amplification = 1024;
  row.cause = "another GELU variant (error peaks near x = -2.7)";
  row.reasons = {
      reason("alpha", "|alpha - 1| 2.0e-04 over 1.1e-05", 2e-4, 1.1e-5),
      reason("element_bound", "max abs 4.7e-04 over 6.0e-06 at [3, 17, 201]",
             4.7e-4, 6e-6, row.stats->max_abs_index),
      reason("zero_sign", "3 zeros differ in sign", 3, 0, -1, true)};
  b.finish_row();
}

void inherited_row(Builder& b, Role role, const std::string& leaf,
                   double error) {
  Row& row = b.row(role, leaf, {4, 32, 64}, kStats);
  row.stats = differing_stats(kStats, 8192, error);
  add_detail(*row.stats);
  row.verdict = Verdict::kMismatch;
  row.origin = Origin::kInherited;
  row.reasons = {reason("element_bound", "max abs over its bound",
                        row.stats->max_abs, 6e-6, row.stats->max_abs_index)};
  b.finish_row();
}

void missing_row(Builder& b) {
  Row& row = b.row(Role::kOutput, "output.1", {4}, kStats);
  row.target = RowSide{};
  row.verdict = Verdict::kIncomplete;
  row.evidence = Evidence::kNone;
  row.reasons = {reason("missing", "missing in the target", 0, 0)};
  b.finish_row();
}

void empty_row(Builder& b) {
  Row& row = b.row(Role::kInput, "input.2", {0, 4}, {});
  row.verdict = Verdict::kEmpty;
  b.finish_row();
}

Group group_of(std::int64_t step, std::int64_t rank) {
  Group g;
  g.step = step;
  g.rank = rank;
  const std::string tail =
      "/step" + std::to_string(step) + "/rank" + std::to_string(rank);
  g.golden_path = "gpu" + tail;
  g.target_path = "npu" + tail;
  g.stacks = {
      {"File /opt/venv/lib/python3.11/site-packages/torch/nn/functional.py, "
       "line 1702, in gelu, \n return torch._C._nn.gelu(input)",
       "File model/mlp.py, line 41, in forward, \n x = F.gelu(self.fc1(x))",
       "File train.py, line 88, in step, \n loss = model(batch)"}};
  return g;
}

void describe(Comparison& c) {
  c.golden_path = "gpu";
  c.target_path = "npu";
  c.standard = "assay";
  c.standard_source = "layered default of assay";
  c.standard_date = "2026-09-01";
  c.command = "assay compare gpu npu --map names.yaml";
}

void name_first_divergence(Comparison& c) {
  const auto born =
      std::find_if(c.rows.begin(), c.rows.end(),
                   [](const Row& r) { return r.origin == Origin::kBorn; });
  if (born == c.rows.end()) return;
  const Group& group = c.groups[born->group];
  Divergence d;
  d.row = static_cast<std::size_t>(born - c.rows.begin());
  d.name = group.ops[born->op].name;
  d.kind = "born";
  d.reason = born->reasons.front().text;
  d.cause = born->cause;
  d.input_note = "its input agrees (max 1 ulp)";
  d.call_path = {"Module.model.Gpt", "Module.layers.3.Block",
                 "Module.layers.3.mlp.Mlp"};
  d.stack = group.stacks.front();
  d.again = "assay compare gpu npu --only '" + d.name + "'";
  c.first_divergence = std::move(d);
}

void add_gelu_rank(Comparison& c, std::int64_t rank) {
  c.groups.push_back(group_of(0, rank));
  Builder b(c);
  b.op("Module.layers.3.mlp.Mlp.forward.0");
  matching_row(b, Role::kInput, "input.0", {4, 32, 64});
  b.op("Module.layers.3.mlp.fc1.Linear.forward.0", 0);
  matching_row(b, Role::kInput, "input.0", {4, 32, 64});
  matching_row(b, Role::kParameter, "parameters.weight", {256, 64});
  matching_row(b, Role::kOutput, "output.0", {4, 32, 256});
  b.op("Module.layers.3.mlp.GELU.forward.0", 0).stack = 0;
  matching_row(b, Role::kInput, "input.0", {4, 32, 256});
  if (rank == 0)
    born_row(b);
  else
    matching_row(b, Role::kOutput, "output.0", {4, 32, 256});
  b.op("Module.layers.3.mlp.fc2.Linear.forward.0", 0);
  if (rank == 0) {
    inherited_row(b, Role::kInput, "input.0", 0x1p-12);
    inherited_row(b, Role::kOutput, "output.0", 0x1p-13);
  }
  missing_row(b);
  b.op("Functional.pad.0.forward");
  empty_row(b);
}

TensorStatistics random_stats(Sequence& random) {
  return {random.f32(1, 9), random.f32(-9, -1), random.f32(-0.1, 0.1),
          random.f32(10, 900)};
}

struct Leaf {
  Role role;
  const char* name;
};
constexpr Leaf kLeaves[] = {{Role::kInput, "input.0"},
                            {Role::kInput, "input.1"},
                            {Role::kParameter, "parameters.weight"},
                            {Role::kOutput, "output.0"},
                            {Role::kOutput, "output.1"},
                            {Role::kInput, "input.2"}};
constexpr const char* kApis[] = {"Linear.forward",   "LayerNorm.forward",
                                 "GELU.forward",     "matmul.forward",
                                 "softmax.backward", "add.forward"};

// An error that grows with depth, as accumulated rounding does.
void judge_randomly(Row& row, Sequence& random, double progress,
                    bool diverged) {
  const TensorStatistics stats = row.golden.stats;
  const double dice = random.uniform();
  if (dice < 0.3 && !diverged) {
    row.stats = equal_stats(stats, 8192);
    return;
  }
  if (dice > 0.999) {
    row.verdict = Verdict::kIncomplete;
    row.evidence = Evidence::kNone;
    row.target = RowSide{};
    row.reasons = {reason("missing", "missing in the target", 0, 0)};
    return;
  }
  const bool bad = diverged && dice < 0.08;
  const double error =
      std::exp2((bad ? -11 : -23) + 5 * progress + 3 * random.uniform());
  row.stats = differing_stats(stats, 8192, error);
  row.target.stats.norm = *stats.norm * (1 + error);
  if (!bad) return;
  add_detail(*row.stats);
  row.verdict = Verdict::kMismatch;
  row.origin = Origin::kInherited;
  row.reasons = {reason("element_bound", "max abs over its bound",
                        row.stats->max_abs, 6e-6, row.stats->max_abs_index)};
}

}  // namespace

Comparison gelu_sample() {
  Comparison c;
  describe(c);
  add_gelu_rank(c, 0);
  add_gelu_rank(c, 1);
  name_first_divergence(c);
  c.verdict = Verdict::kMismatch;
  c.golden_bytes = c.target_bytes = 3'900'000'000;
  c.seconds = 0.4;
  c.warnings = {"npu/step0/rank1/stack.json: absent, rows have no stacks"};
  return c;
}

Comparison large_sample(std::size_t rows) {
  Comparison c;
  describe(c);
  c.groups.push_back(group_of(0, 0));
  Builder b(c);
  Sequence random;
  c.rows.reserve(rows);
  const std::size_t ops = (rows + 5) / 6, bad_op = ops / 3;
  for (std::size_t o = 0; o < ops; ++o) {
    const std::string layer = std::to_string(o / 40);
    std::string name = "Module.layers." + layer + ".block." + kApis[o % 6] +
                       "." + std::to_string(o % 40);
    if (o == bad_op + 1) name = kHostileName;
    b.op(std::move(name), o % 40 == 0 ? -1 : static_cast<int>(o / 40 * 40))
        .stack = 0;
    for (const Leaf& leaf : kLeaves) {
      if (c.rows.size() == rows) break;
      if (o == bad_op && leaf.role == Role::kOutput && !c.first_divergence &&
          c.counts.born == 0) {
        born_row(b);
        continue;
      }
      Row& row = b.row(leaf.role, leaf.name, {4, 32, 64}, random_stats(random));
      judge_randomly(row, random,
                     static_cast<double>(o) / static_cast<double>(ops),
                     o > bad_op);
      if (o == bad_op + 1 && leaf.role == Role::kOutput) {
        row.verdict = Verdict::kMismatch;
        row.origin = Origin::kInherited;
      }
      b.finish_row();
    }
  }
  name_first_divergence(c);
  c.verdict = Verdict::kMismatch;
  c.golden_bytes = c.target_bytes = static_cast<std::int64_t>(rows) * 32768;
  c.seconds = 1.9;
  return c;
}

Comparison statistics_sample(std::size_t rows) {
  Comparison c = large_sample(rows);
  Sequence random;
  for (Row& row : c.rows) {
    row.stats.reset();
    row.golden.file.clear();
    row.target.file.clear();
    if (row.evidence != Evidence::kTensor) continue;
    row.evidence = Evidence::kStatistics;
    row.target.stats = row.golden.stats;
    if (random.uniform() < 0.5) continue;
    row.target.stats.max = random.f32(1, 9);
    row.target.stats.mean = random.f32(-0.1, 0.1);
    row.target.stats.norm = random.f32(10, 900);
  }
  return c;
}

}  // namespace assay
