// Replays the calls of a trace on a device and in float64, and judges them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/conform/run_result.h"
#include "assay/conform/worker.h"
#include "assay/precheck/detail/detail.h"
#include "assay/precheck/plan.h"

namespace assay::precheck {

struct RunOptions {
  conform::WorkerCommand device, golden;
  conform::WorkerLimits limits;
  std::shared_ptr<const Standard> standard;
  // msprobe's status decides; `standard` then gives the figures of the rows.
  bool by_detail = false;
  int runs = 0;  // of a call on the device; 0: 2 where it may not repeat
                 // (nondeterminism.h), else 1
  int jobs = 0;  // calls at once, each on two workers; 0: half the cores, 4
                 // at most
  std::filesystem::path out;  // journal and logs
  bool resume = false;        // keep what an interrupted run has finished
  std::string command;        // repeats the run
  const std::atomic<bool>* stop = nullptr;  // finish the calls in hand
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

// One planned call and its operators in the comparison.
struct CallResult {
  std::string api;
  std::uint32_t group = 0;
  std::uint32_t forward = 0;   // index into Group::ops
  std::int32_t backward = -1;  // -1: without
  std::int64_t stands_for = 1;
  Skip skip = Skip::kNone;
  bool generated = false;  // of inputs that the trace has no elements of
};

struct RunResult {
  Comparison comparison;
  std::vector<CallResult> calls;
  std::vector<Detail> details;  // in the order of the rows
  conform::Side golden, device;
  std::int64_t chosen = 0;  // calls of the trace that were asked for
  std::int64_t apis = 0;    // of them
};

// What a worker does wrong is a row. Throws Error: a worker that cannot be
// started or has no module api_call, a folder `out` that holds something else,
// a full disk.
RunResult run(const Plan& plan, const RunOptions& options);

}  // namespace assay::precheck
