// One tensor that both sides of a replayed call gave.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/precheck/judge_call.h"
#include "assay/precheck/random/judge_random.h"

namespace assay::precheck {

struct Given {
  const std::string& name;         // of the answer
  std::string row;                 // as reports name it
  const Record* record = nullptr;  // what the trace has of it, null: nothing
};

// By judge_pair(), of operators that draw by judge_random(); then what the
// operator may do otherwise is taken into account: choices among equal
// elements, the order of writes, the dtype of autocast, runs that differ. Not
// thread-safe: what the golden's worker is asked again is kept.
class TensorJudge {
 public:
  // `task` outlives it.
  explicit TensorJudge(const CallTask& task)
      : task_(task), call_(task.planned->call) {}

  JudgedRow judge(const Given& what, const Tensor& golden,
                  const Tensor& device);

  // What the golden's installation gives without widening.
  const conform::CaseRun& given();

 private:
  PairTask pair_of(const Given& what, const Tensor& golden,
                   const Tensor& device);
  JudgedRow judge_drawn(const std::string& name, const PairTask& task,
                        const RandomCall& random) const;
  Judgement judge_drawn_gradient(const std::string& name,
                                 const Tensor& gradient,
                                 const RandomCall& random) const;
  std::string first_argument() const;
  void judge_in_autocast(const std::string& name, PairTask task,
                         JudgedRow& judged);
  std::optional<DType> autocast_dtype() const;
  bool repeats(const std::string& name) const;
  void excuse_order(Row& row);
  void finish(const Given& what, const Tensor& golden, JudgedRow& judged) const;
  const Tensor* own(const std::string& name);
  std::vector<Tensor> moved(const std::string& name, Yardstick yardstick);

  const CallTask& task_;
  const ApiCall& call_;
  std::vector<conform::CaseRun> moved_;
  std::optional<conform::CaseRun> given_;
  std::optional<bool> writes_twice_;
};

}  // namespace assay::precheck
