#include "synthesize/menu.h"

namespace emend {
namespace {

using Operations = std::vector<std::string>;

Operations operator+(Operations a, const Operations& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Operations kAdd = {"(add ?p ?q)"}, kMul = {"(mul ?p ?q)"}, kRelu = {"(relu ?p)"},
                 kMatmul = {"(matmul ?p ?q)"}, kTranspose = {"(transpose[perm=[1,0]] ?p)"},
                 kColumns = {"(concat[axis=1] ?p ?q)"}, kRows = {"(concat[axis=0] ?p ?q)"},
                 kConcat = kRows + kColumns;

// Convolutions: plain, with a border, with a border and a stride, in two groups.
const Operations
    kConvPlain = {"(conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0], group=1] ?p ?filter)"},
    kConvBorder = {"(conv[strides=[1,1], dilations=[1,1], pads=[1,1,1,1], group=1] ?p ?filter)"},
    kConvStride = {"(conv[strides=[2,2], dilations=[1,1], pads=[1,1,1,1], group=1] ?p ?filter)"},
    kConvWide = {"(conv[strides=[1,1], dilations=[1,1], pads=[2,2,2,2], group=1] ?p ?filter)"},
    kConvGroups = {"(conv[strides=[1,1], dilations=[1,1], pads=[0,0,0,0], group=2] ?p ?filter)"};

const Operations kMaxPool = {
    "(max_pool[kernel=[2,2], strides=[2,2], dilations=[1,1], "
    "pads=[0,0,0,0]] ?p)",
    "(max_pool[kernel=[3,3], strides=[1,1], dilations=[1,1], "
    "pads=[1,1,1,1]] ?p)"};
// Pads count, as they do for a convolution.
const Operations kAvgPool = {
    "(avg_pool[kernel=[2,2], strides=[2,2], dilations=[1,1], "
    "pads=[0,0,0,0], count_include_pad=true, ceil_mode=false] ?p)",
    "(avg_pool[kernel=[3,3], strides=[1,1], dilations=[1,1], "
    "pads=[1,1,1,1], count_include_pad=true, ceil_mode=false] ?p)"};
const Operations kEnlarge = {"(pad[pads=[0,0,1,1,0,0,1,1], value=0] ?p)"};

const Operations kSplitColumns = {"(get[index=0] (split[axis=1, sizes=(list ?b ?c)] ?p))",
                                  "(get[index=1] (split[axis=1, sizes=(list ?b ?c)] ?p))"},
                 kSplitRows = {"(get[index=0] (split[axis=0, sizes=(list ?a ?d)] ?p))",
                               "(get[index=1] (split[axis=0, sizes=(list ?a ?d)] ?p))"};

std::vector<Menu> make_menus() {
  // clang-format off
  return {
      {"elements",       "x:[a,b] y:[a,b] z:[a,b] s:[] J:ones[a,b]",          kAdd + kMul + kRelu},
      {"transposes",     "x:[a,b] y:[a,b] s:[]",                             kTranspose + kAdd + kMul + kRelu},
      {"products",       "x:[a,b] y:[b,c] z:[c,d] s:[] I:identity[b,b]",      kMatmul + kMul + kTranspose},
      {"product-sums",   "x:[a,b] y:[a,b] u:[b,c] v:[b,c]",                   kMatmul + kAdd},
      {"concat-chains",  "x:[a,b] y:[a,c] z:[a,d]",                          kColumns},
      {"concats",        "x:[a,b] y:[a,c] z:[d,b] u:[d,c]",                   kConcat + kTranspose + kSplitColumns + kSplitRows},
      {"product-groups", "x:[a,b] y:[d,b] u:[b,c] v:[b,e]",                   kMatmul + kConcat + kTranspose},
      {"inner-concats",  "x:[a,b] y:[a,d] u:[b,c] v:[d,c]",                   kMatmul + kConcat + kAdd},
      {"concat-rows",    "x:[a,b] y:[a,b] z:[c,b] u:[c,b] s:[]",              kRows + kAdd + kMul + kRelu},
      {"concat-columns", "x:[a,b] y:[a,b] z:[a,c] u:[a,c] s:[]",              kColumns + kAdd + kMul + kRelu},
      {"convolutions",   "x:[n,c,h,w] y:[n,c,h,w] k:filter[f,c,r,t] l:filter[f,c,r,t] s:[]", kConvPlain + kConvBorder + kAdd + kMul + kRelu},
      {"conv-groups",    "x:[n,c,h,w] y:[m,c,h,w] k:filter[f,c,r,t] l:filter[e,c,r,t]",   kConvPlain + kConvStride + kConcat + kRelu},
      {"conv-channels",  "x:[n,c,h,w] y:[n,d,h,w] k:filter[f,c,r,t] l:filter[f,d,r,t]",   kConvPlain + kConvStride + kConcat + kAdd},
      {"conv-halves",    "x:[n,c,h,w] y:[n,c,h,w] k:filter[f,c,r,t] l:filter[f,c,r,t]",   kConvPlain + kConvGroups + kConcat},
      {"pools",          "x:[n,c,h,w] y:[n,d,h,w] z:[m,c,h,w] s:[]",          kMaxPool + kAvgPool + kConcat + kRelu + kMul},
      {"filters",        "x:[n,c,h,w] K:identity_filter[c,c,3,3] P:averaging_filter[c,c,3,3] L:identity_filter[c,c,1,1]", kConvPlain + kConvBorder + kAvgPool + kEnlarge, 2},
      {"kernels",        "x:[n,c,h,w] k:filter[f,c,r,t] l:filter[f,c,r,t]",               kConvPlain + kConvBorder + kConvWide + kEnlarge},
  };
  // clang-format on
}

}  // namespace

const std::vector<Menu>& default_menus() {
  static const std::vector<Menu> kMenus = make_menus();
  return kMenus;
}

const std::vector<std::string>& more_operations() {
  static const std::vector<std::string> kMore = {
      "(concat[axis=2] ?p ?q)",
      "(concat[axis=-1] ?p ?q)",
      "(transpose[perm=[0,2,1]] ?p)",
      "(transpose[perm=[2,0,1]] ?p)",
      "(transpose[perm=[0,2,3,1]] ?p)",
      "(conv[strides=[2,1], dilations=[1,2], pads=[0,1,2,1], group=1] ?p ?filter)",
      "(conv[strides=[1,1], dilations=[1,1], pads=[1,0,0,1], group=2] ?p ?filter)",
      "(conv[strides=[1,2], dilations=[1,1], pads=[0,0,0,0], group=3] ?p ?filter)",
      "(conv[strides=[3,2], dilations=[2,1], pads=[2,0,1,1], group=1] ?p ?filter)",
      "(conv[strides=[3,3], dilations=[1,1], pads=[1,1,1,1], group=1] ?p ?filter)",
      "(conv[strides=[1,1], dilations=[2,2], pads=[1,1,1,1], group=1] ?p ?filter)",
      "(max_pool[kernel=[1,1], strides=[1,1], dilations=[1,1], pads=[1,0,0,0]] ?p)",
      "(max_pool[kernel=[2,3], strides=[1,2], dilations=[2,1], pads=[0,1,1,1]] ?p)",
      "(avg_pool[kernel=[3,2], strides=[2,1], dilations=[1,1], pads=[1,0,1,1], "
      "count_include_pad=false, ceil_mode=false] ?p)",
  };
  return kMore;
}

}  // namespace emend
