#include "assay/te/parallel/data_parallel.h"

#include <cmath>
#include <string>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/optim/multi_tensor.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/parallel/gradient_bucket.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "GradientBuckets";

std::string description(std::span<const Tensor> gradients,
                        const GradientBucketsOptions& options) {
  std::string text = std::to_string(gradients.size()) + " gradients" +
                     (options.op == GradientOp::kMean ? ", mean" : ", sum") +
                     ", buckets of " + std::to_string(options.bucket_bytes) +
                     " bytes";
  for (const Tensor& g : gradients)
    text.append(" ")
        .append(traits(g.dtype()).name)
        .append(to_string(g.shape()));
  return text;
}

void check(std::span<const Tensor> gradients,
           const GradientBucketsOptions& options) {
  require(options.bucket_bytes > 0, kOp, "bucket_bytes",
          std::to_string(options.bucket_bytes), "1 or more");
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::string name = "gradient " + std::to_string(i);
    require_high_precision(kOp, name, gradients[i]);
    require_writable(kOp, name, gradients[i]);
  }
}

std::vector<GradientBucket> make_buckets(std::span<const Tensor> gradients,
                                         std::int64_t most_bytes) {
  std::vector<GradientBucket> buckets;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& g = gradients[i];
    const std::int64_t most = most_bytes * 8 / traits(g.dtype()).bits;
    const bool fits = !buckets.empty() && buckets.back().dtype() == g.dtype() &&
                      buckets.back().device() == g.device &&
                      buckets.back().elements() + g.numel() <= most;
    if (!fits) buckets.emplace_back(g.dtype(), g.device);
    buckets.back().add(i, g.numel());
  }
  return buckets;
}

}  // namespace

struct GradientBuckets::State {
  std::vector<Tensor> gradients;
  GradientOp op;
  // Parts travel on the first, sums on the second: each in the order of the
  // buckets, whenever a rank comes to them.
  std::shared_ptr<Communicator> group;
  std::unique_ptr<Communicator> sums;
  std::vector<GradientBucket> buckets;
  std::vector<std::size_t> bucket_of;  // of each gradient
  std::vector<bool> ready;
  std::vector<std::size_t> missing;  // gradients not ready, of each bucket
  std::size_t started = 0, summed = 0;

  void reset() {
    ready.assign(gradients.size(), false);
    missing.clear();
    for (const GradientBucket& b : buckets)
      missing.push_back(b.members().size());
    started = summed = 0;
  }

  void advance() {
    for (; started < buckets.size() && missing[started] == 0; ++started)
      buckets[started].start(gradients, *group);
    for (; summed < started && buckets[summed].arrived(); ++summed)
      buckets[summed].send_sums(op, *sums);
  }
};

GradientBuckets::GradientBuckets(std::vector<Tensor> gradients,
                                 const GradientBucketsOptions& options,
                                 const std::shared_ptr<Communicator>& group)
    : state_(std::make_unique<State>()) {
  agree(kOp, *group, [&] {
    check(gradients, options);
    return description(gradients, options);
  });
  State& s = *state_;
  s.gradients = std::move(gradients);
  s.op = options.op;
  s.group = group;
  s.sums = group->split(0, group->rank());
  s.buckets = make_buckets(s.gradients, options.bucket_bytes);
  for (std::size_t b = 0; b < s.buckets.size(); ++b)
    s.bucket_of.insert(s.bucket_of.end(), s.buckets[b].members().size(), b);
  s.reset();
}

GradientBuckets::~GradientBuckets() = default;

void GradientBuckets::mark_ready(std::size_t i) {
  State& s = *state_;
  require(i < s.gradients.size(), "mark_ready", "gradient", std::to_string(i),
          "one of " + std::to_string(s.gradients.size()));
  require(!s.ready[i], "mark_ready", "gradient " + std::to_string(i),
          "marked twice", "once before wait()");
  s.ready[i] = true;
  --s.missing[s.bucket_of[i]];
  s.advance();
}

void GradientBuckets::wait() {
  State& s = *state_;
  agree("GradientBuckets::wait", *s.group, [&] {
    for (std::size_t i = 0; i < s.ready.size(); ++i)
      require(s.ready[i], "GradientBuckets::wait",
              "gradient " + std::to_string(i), "not marked", "all ready");
    return std::string();
  });
  for (; s.summed < s.buckets.size(); ++s.summed)
    s.buckets[s.summed].send_sums(s.op, *s.sums);
  for (GradientBucket& bucket : s.buckets) bucket.finish(s.gradients);
  s.reset();
}

std::size_t GradientBuckets::buckets() const { return state_->buckets.size(); }
std::size_t GradientBuckets::started() const { return state_->started; }

void reduce_gradients(std::span<const Tensor> gradients,
                      const GradientBucketsOptions& options,
                      const std::shared_ptr<Communicator>& group) {
  GradientBuckets buckets({gradients.begin(), gradients.end()}, options, group);
  for (std::size_t i = 0; i < gradients.size(); ++i) buckets.mark_ready(i);
  buckets.wait();
}

double gradient_norm(std::span<const Tensor> gradients, Communicator& group) {
  double own = 0;
  agree("gradient_norm", group, [&] {
    const Norms norms = multi_tensor_l2norm(gradients);
    const double norm = static_cast<double>(*norms.total.data<float>());
    own = norm * norm;
    return std::string();
  });
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&own, 1)),
                   std::as_writable_bytes(std::span(all)));
  double sum = 0;
  for (const double squares : all) sum += squares;
  return std::sqrt(sum);
}

}  // namespace assay::te
