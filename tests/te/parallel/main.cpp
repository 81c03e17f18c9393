// The tests' main(): one communicator of all ranks, one report.
#include <cstdlib>

#include "assay/base/parallel.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

// Ranks but the first are silent until something fails.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    name_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  // GoogleTest holds its lock here: nothing of it may be asked.
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s\n%s:%d\n%s\n", group()->rank(),
                 name_.c_str(), result.file_name() ? result.file_name() : "",
                 result.line_number(), result.message());
  }
  std::string name_;
};

// Other ranks may be waiting for what this one does not do any more: an exit
// with an error ends them too.
class EndAtFatalFailure : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.fatally_failed()) std::exit(1);
  }
};

void listen() {
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (group()->rank() > 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  if (group()->size() > 1) listeners.Append(new EndAtFatalFailure);
}

int worst_of_all_ranks(int code) {
  std::vector<int> codes(static_cast<std::size_t>(group()->size()));
  group()->all_gather(std::as_bytes(std::span(&code, 1)),
                      std::as_writable_bytes(std::span(codes)));
  return *std::max_element(codes.begin(), codes.end());
}

}  // namespace

const std::shared_ptr<Communicator>& group() {
  static const std::shared_ptr<Communicator> world =
      launched_by_mpi() ? mpi_communicator() : self_communicator();
  return world;
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (group()->size() > 1) {
    set_thread_count(1);
    // An exception reaches std::terminate, which ends every rank.
    GTEST_FLAG_SET(catch_exceptions, false);
  }
  listen();
  return worst_of_all_ranks(RUN_ALL_TESTS());
}

}  // namespace assay::te

int main(int argc, char** argv) { return assay::te::run(argc, argv); }
