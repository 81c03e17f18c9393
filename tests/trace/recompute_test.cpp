// Call indices under activation checkpointing.
#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

std::string forward(const std::string& name, bool again, double max) {
  return "\"" + name +
         "\": {\"input_args\": [{\"type\":\"torch.Tensor\",\"dtype\":"
         "\"torch.float32\",\"shape\":[1],\"Max\":" +
         std::to_string(max) +
         ",\"Min\":0,\"Mean\":0,\"Norm\":0}], \"input_kwargs\": {}, "
         "\"is_recompute\": " +
         (again ? "true" : "false") + ", \"output\": []}";
}

std::string backward(const std::string& name) {
  return "\"" + name + "\": {\"input\": [], \"output\": []}";
}

std::string join(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) {
    text += (text.empty() ? "" : ",\n") + entry;
  }
  return text;
}

// The backward hooks of a checkpointed module hang on its second run.
TEST(Recompute, BackwardTakesTheIndexOfTheFirstRun) {
  const TempDir dir;
  const Trace trace =
      read_dump(dir, join({forward("Module.a.L.forward.0", false, 1),
                           forward("Module.a.L.forward.1", true, 1),
                           backward("Module.a.L.backward.1")}));
  EXPECT_EQ(op_names(trace),
            (std::vector<std::string>{"Module.a.L.forward.0",
                                      "Module.a.L.forward.0.recompute",
                                      "Module.a.L.backward.0"}));
  EXPECT_TRUE(warns(trace, "2 calls were renamed"));
}

TEST(Recompute, WithoutItNamesStay) {
  const TempDir dir;
  const Trace trace =
      read_dump(dir, join({forward("Module.a.L.forward.3", false, 1),
                           backward("Module.a.L.backward.3")}));
  EXPECT_EQ(op_names(trace),
            (std::vector<std::string>{"Module.a.L.forward.3",
                                      "Module.a.L.backward.3"}));
}

// Two layers call one API; the second layer is recomputed first.
TEST(Recompute, ApisFollowTheModuleThatCalledThem) {
  const TempDir dir;
  dir.write("construct.json",
            R"({"Functional.f.0.forward": "Module.l0.L.forward.0",
                "Functional.f.1.forward": "Module.l1.L.forward.0",
                "Functional.f.2.forward": "Module.l1.L.forward.1",
                "Functional.f.3.forward": "Module.l0.L.forward.1"})");
  const Trace trace =
      read_dump(dir, join({forward("Functional.f.0.forward", false, 7),
                           forward("Module.l0.L.forward.0", false, 7),
                           forward("Functional.f.1.forward", false, 7),
                           forward("Module.l1.L.forward.0", false, 7),
                           forward("Functional.f.2.forward", true, 7),
                           forward("Module.l1.L.forward.1", true, 7),
                           backward("Functional.f.2.backward"),
                           forward("Functional.f.3.forward", true, 7),
                           forward("Module.l0.L.forward.1", true, 7),
                           backward("Functional.f.3.backward")}));
  EXPECT_EQ(trace.ops[4].name, "Functional.f.1.forward.recompute");
  EXPECT_EQ(trace.ops[6].name, "Functional.f.1.backward");
  EXPECT_EQ(trace.ops[7].name, "Functional.f.0.forward.recompute");
  EXPECT_EQ(trace.ops[9].name, "Functional.f.0.backward");
}

// Micro batches interleave: 0 | again 1, back 1 | 2 | again 3, back 3.
TEST(Recompute, FirstRunsCountAmongThemselves) {
  const TempDir dir;
  const Trace trace =
      read_dump(dir, join({forward("Module.a.L.forward.0", false, 1),
                           forward("Module.a.L.forward.1", true, 1),
                           backward("Module.a.L.backward.1"),
                           forward("Module.a.L.forward.2", false, 2),
                           forward("Module.a.L.forward.3", true, 2),
                           backward("Module.a.L.backward.3")}));
  EXPECT_EQ(op_names(trace),
            (std::vector<std::string>{
                "Module.a.L.forward.0", "Module.a.L.forward.0.recompute",
                "Module.a.L.backward.0", "Module.a.L.forward.1",
                "Module.a.L.forward.1.recompute", "Module.a.L.backward.1"}));
}

TEST(Recompute, EqualInputsTieWhatOrderCannot) {
  const TempDir dir;
  const Trace trace =
      read_dump(dir, join({forward("Functional.f.0.forward", false, 1),
                           forward("Functional.f.1.forward", false, 2),
                           forward("Functional.f.2.forward", true, 2),
                           forward("Functional.f.3.forward", true, 1)}));
  EXPECT_EQ(trace.ops[2].name, "Functional.f.1.forward.recompute");
  EXPECT_EQ(trace.ops[3].name, "Functional.f.0.forward.recompute");
}

TEST(Recompute, WhatCannotBeTiedKeepsItsIndex) {
  const TempDir dir;
  const Trace trace =
      read_dump(dir, join({forward("Functional.f.0.forward", false, 5),
                           forward("Functional.f.1.forward", false, 5),
                           forward("Functional.f.2.forward", true, 5),
                           backward("Functional.f.2.backward")}));
  EXPECT_EQ(trace.ops[2].name, "Functional.f.2.forward.recompute");
  EXPECT_EQ(trace.ops[3].name, "Functional.f.2.backward.recompute");
  EXPECT_TRUE(warns(trace, "2 recomputed calls could not be tied"));
}

}  // namespace
}  // namespace assay
