// A real dump of two ResNet-50 training steps on a GPU, counted independently
// with Python's json module.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

std::vector<Trace> read_both() {
  std::vector<Trace> traces;
  const std::string path = std::string(ASSAY_TEST_DATA) + "/trace/resnet50_gpu";
  for (const TraceLocation& location : locate_traces(path)) {
    traces.push_back(read_trace(location));
  }
  return traces;
}

Trace read_first() { return std::move(read_both().front()); }

TEST(ResNet50, BothStepsHaveEveryEntryAndLeaf) {
  const auto traces = read_both();
  ASSERT_EQ(traces.size(), 2u);
  for (std::size_t step = 0; step < 2; ++step) {
    const Trace& trace = traces[step];
    EXPECT_EQ(trace.step, static_cast<std::int64_t>(step));
    EXPECT_EQ(trace.rank, 0);
    EXPECT_EQ(trace.task, "statistics");
    EXPECT_EQ(trace.level, "mix");
    EXPECT_EQ(trace.framework, "pytorch");
    EXPECT_EQ(trace.ops.size(), 760u);
    EXPECT_EQ(trace.records.size(), 2071u + 643u + 108u);
    const auto tensors =
        std::count_if(trace.records.begin(), trace.records.end(),
                      [](const Record& record) { return record.is_tensor; });
    EXPECT_EQ(tensors, 2071);
    EXPECT_TRUE(warns(trace, "stack.json: absent"));
  }
}

TEST(ResNet50, KindsOfEntriesAddUp) {
  std::map<std::pair<std::string, Direction>, int> counts;
  const Trace trace = read_first();
  for (const Op& op : trace.ops) ++counts[{op.prefix, op.direction}];
  const std::map<std::pair<std::string, Direction>, int> expected = {
      {{"Module", Direction::kForward}, 182},
      {{"Module", Direction::kBackward}, 84},
      {{"Module", Direction::kParametersGrad}, 107},
      {{"Functional", Direction::kForward}, 159},
      {{"Functional", Direction::kBackward}, 159},
      {{"Tensor", Direction::kForward}, 69}};
  EXPECT_EQ(counts, expected);
}

TEST(ResNet50, LeavesCarryWhatTheDumpSays) {
  const Trace trace = read_first();
  const Record& input = find(trace, "Functional.conv2d.0.forward.input.0");
  EXPECT_EQ(input.role, Role::kInput);
  EXPECT_EQ(input.facts.dtype, DType::kF32);
  EXPECT_EQ(input.facts.dtype_text, "torch.float32");
  EXPECT_EQ(input.facts.shape, (Shape{32, 3, 224, 224}));
  EXPECT_EQ(input.facts.requires_grad, false);
  EXPECT_EQ(input.stats.max, 1.0);
  EXPECT_EQ(input.stats.mean, 0.4993983507156372);
  EXPECT_EQ(input.stats.norm, 1267.74462890625);
  EXPECT_EQ(find(trace, "Functional.conv2d.0.forward.input.2").value, "None");
  EXPECT_EQ(find(trace, "Functional.conv2d.0.forward.input.4.1").value, "3");
  const Record& bias = find(trace, "Module.fc.Linear.parameters_grad.0.bias");
  EXPECT_EQ(bias.role, Role::kGradient);
  EXPECT_EQ(bias.facts.shape, Shape{1000});
  EXPECT_EQ(bias.stats.norm, 0.17590194940567017);
  EXPECT_EQ(find(trace, "Module.fc.Linear.forward.0.parameters.weight").role,
            Role::kParameter);
}

TEST(ResNet50, NamesAreUnique) {
  for (const Trace& trace : read_both()) {
    const auto all = names(trace);
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  }
}

TEST(ResNet50, TheCallTreeComesFromConstruct) {
  const Trace trace = read_first();
  std::map<std::string, std::string> parents;
  for (const Op& op : trace.ops) {
    parents[op.name] =
        op.parent < 0 ? ""
                      : trace.ops[static_cast<std::size_t>(op.parent)].name;
  }
  EXPECT_EQ(parents.at("Functional.conv2d.0.forward"),
            "Module.conv1.Conv2d.forward.0");
  EXPECT_EQ(parents.at("Module.conv1.Conv2d.forward.0"), "");
  EXPECT_EQ(parents.at("Tensor.add_.0.forward"),
            "Module.bn1.BatchNorm2d.forward.0");
}

}  // namespace
}  // namespace assay
