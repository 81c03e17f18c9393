#include "assay/precheck/nondeterminism.h"

#include <fmt/format.h>

#include <string_view>

#include "assay/precheck/random/arguments.h"

namespace assay::precheck {
namespace {

constexpr std::string_view kForward =
    " bincount conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d convolution cross_entropy ctc_loss cumsum histc "
    "index_add index_copy index_put index_put_impl index_reduce kthvalue "
    "max_unpool1d max_unpool2d max_unpool3d median nanmedian nll_loss "
    "nll_loss2d put scatter scatter_add scatter_reduce setitem sparse_mm ";

constexpr std::string_view kBackward =
    " adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d avg_pool3d "
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "convolution ctc_loss cumsum embedding embedding_bag "
    "fractional_max_pool2d fractional_max_pool3d gather getitem grid_sample "
    "index index_add index_put index_select interpolate max_pool2d max_pool3d "
    "npu_fusion_attention pad put repeat_interleave reflection_pad1d "
    "reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
    "replication_pad3d scaled_dot_product_attention "
    "scaled_dot_product_efficient_attention "
    "scaled_dot_product_flash_attention take take_along_dim upsample "
    "upsample_bicubic2d upsample_bilinear2d upsample_linear1d "
    "upsample_trilinear3d ";

}  // namespace

bool may_not_repeat(const std::string& api, bool backward) {
  return (backward ? kBackward : kForward)
             .find(fmt::format(" {} ", random_name(api))) !=
         std::string_view::npos;
}

}  // namespace assay::precheck
