// Which rounding an operator may do, by its name: the table behind op_class().
//
// Names are those of PyTorch and of torch_npu, lower case, without the
// underscore of in-place forms and without dunders ("__iadd__" is "add").
// Modules go by class name, case kept. A name in two lists is an error that a
// test catches. What is not listed is unknown and judged by the wide bounds.
#pragma once

#include <string_view>
#include <vector>

namespace assay::op_table {

// The names of one of the lists below, which are separated by white space.
inline std::vector<std::string_view> names(std::string_view list) {
  constexpr std::string_view kSpace = " \n";
  std::vector<std::string_view> found;
  for (std::size_t at = list.find_first_not_of(kSpace);
       at != std::string_view::npos;) {
    const std::size_t end = list.find_first_of(kSpace, at);
    found.push_back(list.substr(at, end - at));
    at = list.find_first_not_of(kSpace, end);
  }
  return found;
}

// Values are moved, selected, compared or rounded to integers: nothing is
// computed that two devices could round differently.
inline constexpr std::string_view kMovementOps = R"(
abs absolute alias all all_gather all_gather_base all_gather_into_tensor
all_to_all all_to_all_single allclose amax amin aminmax and any argmax
argmin argsort argwhere as_strided as_tensor atleast_1d atleast_2d
atleast_3d batch_isend_irecv bincount bitwise_and bitwise_left_shift
bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bool
broadcast broadcast_tensors broadcast_to bucketize byte cartesian_prod cat
ceil channel_shuffle chunk clamp clamp_max clamp_min clip clone column_stack
combinations concat concatenate contiguous copy copysign cpu cuda cummax
cummin detach diag diag_embed diagonal diagonal_scatter double dsplit dstack
embedding empty empty_like empty_strided empty_with_format eq equal expand
expand_as eye fill fill_diagonal fix flatten flip fliplr flipud float floor
fmax fmin full full_like gather ge getitem greater greater_equal gt half
heaviside histc hsplit hstack index index_copy index_fill index_put
index_select int invert irecv isclose isend isfinite isin isinf isnan
isneginf isposinf isreal item kthvalue le less less_equal logical_and
logical_not logical_or logical_xor long lshift lt masked_fill masked_scatter
masked_select max max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d
max_unpool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
maximum median meshgrid min minimum mode moveaxis movedim msort nan_to_num
nanmedian narrow narrow_copy ne neg negative new_empty new_empty_strided
new_full new_ones new_tensor new_zeros nonzero not not_equal npu_format_cast
npu_transpose numpy one_hot ones ones_like or pad permute pixel_shuffle
pixel_unshuffle pos positive put ravel real imag recv relu relu6 repeat
repeat_interleave reshape reshape_as resize resize_as resolve_conj
resolve_neg roll rot90 round row_stack rshift scalar_tensor scatter
searchsorted select select_scatter send setitem sgn short sign signbit slice
slice_scatter sort split split_with_sizes squeeze stack swapaxes swapdims t
take take_along_dim tensor tensor_split threshold tile to topk transpose
tril tril_indices triu triu_indices trunc type type_as unbind unflatten
unfold unique unique_consecutive unsqueeze view view_as
view_as_complex view_as_real vsplit vstack where xor zero zeros zeros_like
arange range shape_as_tensor bfloat16 hardtanh gather_base npu_one_hot
npu_reshape npu_slice npu_broadcast npu_dtype_cast npu_confusion_transpose
)";

// One value in (or a few), one value out.
inline constexpr std::string_view kElementwiseOps = R"(
acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan
arctan2 arctanh asin asinh atan atan2 atanh celu conj cos cosh deg2rad
digamma div divide elu erf erfc erfinv exp exp2 expm1 fast_gelu float_power
floor_divide floordiv fmod frac frexp gelu glu hardshrink hardsigmoid
hardswish hypot i0 ldexp leaky_relu lerp lgamma linspace log log10 log1p
log2 logaddexp logaddexp2 logit logsigmoid logspace mish mod mul multiply
mvlgamma nextafter npu_fast_gelu npu_gelu npu_geglu npu_mish npu_rotary_mul
npu_silu npu_swiglu npu_apply_rotary_pos_emb polar polygamma pow prelu
rad2deg reciprocal relu_squared remainder rsqrt rsub selu sigmoid silu sin
sinc sinh softplus softshrink softsign sqrt square sub subtract swiglu swish
tan tanh tanhshrink true_divide truediv xlogy quantize_per_tensor
quantize_per_channel dequantize fake_quantize_per_tensor_affine
apply_rotary_pos_emb fused_apply_rotary_pos_emb bias_gelu bias_gelu_impl
bias_swiglu bias_swiglu_impl quick_gelu gelu_fast gelu_new squared_relu
complex quantize
)";

// Many values into one, but no matrix product.
inline constexpr std::string_view kReductionOps = R"(
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d all_reduce
avg_pool1d avg_pool2d avg_pool3d batch_norm binary_cross_entropy
binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity
count_nonzero cross_entropy ctc_loss cumprod cumsum cumulative_trapezoid
cross diff dist embedding_bag fold fractional_max_pool2d gaussian_nll_loss
grid_sample group_norm hinge_embedding_loss huber_loss index_add
index_reduce instance_norm interpolate kl_div l1_loss layer_norm
local_response_norm log_softmax logcumsumexp logsumexp lp_pool1d lp_pool2d
margin_ranking_loss mean mse_loss multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss nanmean nansum native_batch_norm
native_group_norm native_layer_norm nll_loss nll_loss_nd norm normalize
npu_cross_entropy_loss npu_add_layer_norm npu_add_rms_norm npu_deep_norm
npu_group_norm_silu npu_layer_norm npu_masked_softmax
npu_moe_gating_top_k_softmax npu_moe_finalize_routing
npu_moe_token_unpermute npu_rms_norm npu_scaled_masked_softmax
npu_scatter_nd_update npu_softmax_cross_entropy_with_logits nuclear_norm
pairwise_distance pdist poisson_nll_loss prod reduce reduce_scatter
reduce_scatter_base reduce_scatter_tensor renorm rms_norm safe_softmax
scaled_masked_softmax scaled_upper_triang_masked_softmax scatter_add
scatter_reduce sigmoid_focal_loss smooth_l1_loss soft_margin_loss softmax
softmin std std_mean sum sum_to_size trace trapezoid trapz
triplet_margin_loss upsample upsample_bicubic2d upsample_bilinear
upsample_bilinear2d upsample_nearest var var_mean
vander vocab_parallel_cross_entropy weight_norm clip_grad_norm get_total_norm
fused_layer_norm fused_rms_norm moe_permute moe_unpermute linalg_norm
vector_norm matrix_norm
)";

// Sums of products over a long dimension.
inline constexpr std::string_view kGemmOps = R"(
addbmm addmm addmv addr baddbmm bilinear bmm cdist chain_matmul conv1d
conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
convolution corrcoef cov deform_conv2d dot einsum fft fft2 fftn
flash_attn_func flash_attn_varlen_func flash_attention fused_dense ger
grouped_gemm grouped_mm gru_cell gmm hspmm ifft inner irfft istft kron
linear lstm_cell matmul matrix_exp matrix_power memory_efficient_attention
mm multi_dot multi_head_attention_forward mv native_multi_head_attention
npu_all_gather_base_mm npu_bmmv2 npu_conv2d npu_ffn
npu_fused_infer_attention_score npu_fusion_attention npu_fusion_attention_v2
npu_grouped_matmul npu_incre_flash_attention npu_linear
npu_mm_all_reduce_base npu_mm_reduce_scatter_base npu_multi_head_attention
npu_prompt_flash_attention npu_quant_matmul npu_lstm npu_gru outer rfft
rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention scaled_mm smm
sparse_mm sspaddmm stft tensordot vdot vecdot weight_int8pack_mm
general_gemm fused_linear lstm gru
)";

inline constexpr std::string_view kRandomOps = R"(
alpha_dropout bernoulli bias_dropout_add binomial cauchy dropout dropout1d
dropout2d dropout3d exponential feature_alpha_dropout feature_dropout
geometric gumbel_softmax kaiming_normal kaiming_uniform log_normal
multinomial native_dropout normal normal_functional npu_dropout
npu_dropout_gen_mask poisson rand rand_like randint randint_like randn
randn_like random randperm rrelu rrelu_with_noise sample_dirichlet
standard_gamma trunc_normal uniform xavier_normal xavier_uniform
)";

// Forward they move or combine single values; their gradient adds up several
// (duplicate indices, broadcast dimensions), so backward they are reductions.
inline constexpr std::string_view kBackwardAccumulates = R"(
add addcdiv addcmul as_strided broadcast_tensors broadcast_to copy div
divide embedding expand expand_as gather getitem index index_select lerp
maximum minimum max min amax amin max_pool1d max_pool2d max_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d meshgrid mod mul
multiply npu_rotary_mul pow prelu repeat repeat_interleave rsub sub subtract
swiglu take take_along_dim tile true_divide truediv unfold where xlogy
all_gather all_gather_base all_gather_into_tensor broadcast bias_gelu
bias_gelu_impl bias_swiglu bias_swiglu_impl unbind pad clone masked_fill
cross clamp clamp_min clamp_max clip masked_select masked_scatter copysign
fmax fmin fill index_fill index_put setitem gather_base atan2 arctan2 hypot
fmod remainder logaddexp logaddexp2 ldexp float_power complex polar
)";

inline constexpr std::string_view kMovementModules = R"(
AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d ChannelShuffle
CircularPad1d CircularPad2d ConstantPad1d ConstantPad2d ConstantPad3d
Flatten Hardtanh Identity IdentityOp MaxPool1d MaxPool2d MaxPool3d
MaxUnpool2d PixelShuffle PixelUnshuffle ReLU ReLU6 ReflectionPad1d
ReflectionPad2d ReplicationPad1d ReplicationPad2d Threshold Unflatten Unfold
ZeroPad1d ZeroPad2d Embedding
)";

inline constexpr std::string_view kElementwiseModules = R"(
CELU ELU FastGELUActivation GELU GELUActivation GELUTanh GLU Hardshrink
Hardsigmoid Hardswish LeakyReLU LogSigmoid Mish NewGELUActivation PReLU
PytorchGELUTanh QuickGELUActivation ReLUSquaredActivation SELU SiLU
SiLUActivation Sigmoid Softplus Softshrink Softsign SwiGLU Tanh Tanhshrink
)";

inline constexpr std::string_view kReductionModules = R"(
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AvgPool1d AvgPool2d
AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d
CTCLoss CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss EmbeddingBag
Fold FusedLayerNorm FusedRMSNorm FusedScaleMaskSoftmax GroupNorm HuberLoss
InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LayerNorm
LlamaRMSNorm LocalResponseNorm LogSoftmax MSELoss MixedFusedLayerNorm
MixedFusedRMSNorm NLLLoss Qwen2RMSNorm Qwen3RMSNorm RMSNorm SmoothL1Loss
Softmax Softmax2d Softmin SyncBatchNorm T5LayerNorm TENorm TripletMarginLoss
Upsample UpsamplingBilinear2d UpsamplingNearest2d VocabParallelEmbedding
WrappedTorchNorm DeepseekV3RMSNorm MistralRMSNorm GemmaRMSNorm
)";

inline constexpr std::string_view kGemmModules = R"(
Bilinear ColumnParallelLinear Conv1D Conv1d Conv2d Conv3d ConvTranspose1d
ConvTranspose2d ConvTranspose3d CoreAttention DotProductAttention
FlashAttention FlashSelfAttention FusedAttention GRU GRUCell GroupedLinear
LSTM LSTMCell LayerNormLinear LayerNormMLP Linear MultiheadAttention
NonDynamicallyQuantizableLinear RNN RNNCell RowParallelLinear
TEColumnParallelGroupedLinear TEColumnParallelLinear TEDotProductAttention
TEGroupedLinear TELayerNormColumnParallelLinear TELinear
TERowParallelGroupedLinear TERowParallelLinear UnfusedDotProductAttention
)";

inline constexpr std::string_view kRandomModules = R"(
AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout RReLU
)";

// Modules whose parameter or input gradients add up several values.
inline constexpr std::string_view kModuleBackwardAccumulates = R"(
AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d CircularPad1d
CircularPad2d Embedding MaxPool1d MaxPool2d MaxPool3d PReLU ReflectionPad1d
ReflectionPad2d ReplicationPad1d ReplicationPad2d Unfold
)";

}  // namespace assay::op_table
