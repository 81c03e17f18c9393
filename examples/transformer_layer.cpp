// Training in C++: two steps of a transformer layer under MXFP8, and a
// checkpoint from which a third has the same bits.
#include "assay/te/modules/transformer_layer.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/te/modules/autocast.h"
#include "assay/te/modules/checkpoint.h"
#include "assay/te/modules/trainable.h"
#include "assay/te/optim/grad_clip.h"

using namespace assay;
using namespace assay::te;

namespace {

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(DType::kF32, shape);
  normal_init(1.0)(t, seed);
  return t;
}

// The mean of (y - target)^2, and its gradient.
double squared_error(const Tensor& y, const Tensor& target, Tensor& dy) {
  dy = Tensor::empty(y.dtype(), y.shape());
  const auto n = static_cast<double>(y.numel());
  double sum = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double d = y.data<float>()[i] - target.data<float>()[i];
    sum += d * d;
    dy.mutable_data<float>()[i] = static_cast<float>(2 * d / n);
  }
  return sum / n;
}

struct Training {
  TransformerLayer layer{256, 1024, 4, {.hidden_dropout = 0}};
  FusedAdam optimizer{trainable(layer), {.lr = 2e-3}};

  double step(const Tensor& x, const Tensor& target) {
    TransformerLayer::Context context;
    Autocast autocast(recipe::MXFP8BlockScaling{});
    const Tensor y = layer.forward(x, &context);
    autocast.end();

    Tensor dy;
    const double loss = squared_error(y, target, dy);
    layer.backward(dy, context);

    std::vector<Tensor> grads = gradients(layer);
    clip_grad_norm(grads, 1.0);
    optimizer.step(grads);
    layer.zero_grad();
    return loss;
  }

  void save(const std::string& path) {
    const TrainingState state{.step = optimizer.step_count(),
                              .random = random_states()};
    save_checkpoint(path,
                    join_sections({{"model", layer.state_dict()},
                                   {"optimizer", optimizer.state_dict()}}),
                    to_metadata(state));
  }

  void load(const std::string& path) {
    const Checkpoint checkpoint = load_checkpoint(path);
    auto parts = sections(checkpoint, {"model", "optimizer"});
    layer.load_state_dict(parts["model"]);
    optimizer.load_state_dict(parts["optimizer"]);
    set_random_states(training_state(checkpoint.metadata).random);
  }
};

}  // namespace

int main() {
  const Tensor x = normal({64, 2, 256}, 1), target = normal({64, 2, 256}, 2);
  const std::string path = "transformer_layer.safetensors";
  Training first;
  for (int i = 0; i < 2; ++i) std::printf("loss %.2f\n", first.step(x, target));
  first.save(path);
  const double loss = first.step(x, target);

  Training second;
  second.load(path);
  std::filesystem::remove(path);
  const double again = second.step(x, target);
  std::printf("loss %.2f, %s from the checkpoint\n", loss,
              loss == again ? "the same" : "another");
  return loss == again ? 0 : 1;
}
