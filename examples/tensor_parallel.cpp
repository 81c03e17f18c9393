// An MLP whose weights are cut over the processes that mpirun started, and
// whose tokens are cut between the layers (sequence parallelism).
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "assay/te/modules/linear.h"
#include "assay/te/modules/trainable.h"
#include "assay/te/parallel/collectives.h"

using namespace assay;
using namespace assay::te;

namespace {

struct Mlp : Module {
  explicit Mlp(const TensorParallel& tp)
      : Module("Mlp", ""),
        fc1(64, 256, {.parallel_mode = ParallelMode::kColumn, .tp = tp}),
        fc2(256, 64, {.parallel_mode = ParallelMode::kRow, .tp = tp}) {
    add_child("fc1", fc1);
    add_child("fc2", fc2);
  }
  Linear fc1, fc2;
};

// 0.5 sum(y^2) over the group; its gradient is y.
double half_square(const Tensor& y, Communicator& group) {
  Tensor sum = Tensor::zeros(DType::kF32, {1});
  float& own = *sum.mutable_data<float>();
  for (const float v : std::span(y.data<float>(), y.numel()))
    own += 0.5f * v * v;
  all_reduce_sum_in_place(sum, group);
  return *sum.data<float>();
}

}  // namespace

int main() {
  const std::shared_ptr<Communicator> group =
      launched_by_mpi() ? mpi_communicator() : self_communicator();
  const TensorParallel tp{.group = group, .sequence_parallel = true};
  Mlp model(tp);  // weights are drawn whole, then cut: the same on any number
  FusedSGD optimizer(trainable(model), {.lr = 0.01});

  Tensor tokens = Tensor::empty(DType::kF32, {32, 64});
  normal_init(1.0)(tokens, /*seed=*/1);
  const Tensor x = slice_first_dim(tokens, *group);  // this rank's

  for (int step = 1; step <= 3; ++step) {
    Linear::Context fc1, fc2;
    const Tensor y = model.fc2.forward(model.fc1.forward(x, &fc1), &fc2);
    const double loss = half_square(y, *group);
    model.fc1.backward(model.fc2.backward(y, fc2), fc1);
    // fc2's bias has seen this rank's tokens alone.
    sum_sequence_parallel_gradients(model, *group);

    std::vector<Tensor> grads = gradients(model);
    optimizer.step(grads);
    model.zero_grad();
    if (group->rank() == 0) std::printf("step %d: loss %.1f\n", step, loss);
  }
}
