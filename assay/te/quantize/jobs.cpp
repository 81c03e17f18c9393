#include "assay/te/quantize/jobs.h"

#include <algorithm>
#include <vector>

#include "assay/base/parallel.h"

namespace assay::te {

void run_jobs(std::span<const Job> jobs) {
  if (jobs.size() == 1) return parallel_for(jobs[0].blocks, jobs[0].body);
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const Job& job : jobs) ends.push_back(total += job.blocks);
  parallel_for(total, [&](std::int64_t i) {
    const auto found = std::upper_bound(ends.begin(), ends.end(), i);
    const Job& job = jobs[static_cast<std::size_t>(found - ends.begin())];
    job.body(i - (*found - job.blocks));
  });
}

}  // namespace assay::te
