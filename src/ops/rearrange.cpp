// Regular rearrangements beyond the basic ones: tiles, triangles, and channels against space.
#include <algorithm>

#include "ops/families.h"
#include "ops/movement.h"
#include "ops/table.h"

namespace emend {
namespace {

Result<Type> tile_infer(const Tile& a, Types in) {
  Dims shape = in[0].shape;
  if (a.repeats.size() != shape.size())
    return fail("tile: needs one number per dimension of ", shape_text(shape));
  for (size_t d = 0; d < shape.size(); ++d) {
    if (a.repeats[d] < 0 || a.repeats[d] > kMaxElements / std::max<int64_t>(1, shape[d]))
      return fail("tile: ", a.repeats[d], " repetitions");
    shape[d] *= a.repeats[d];
  }
  return Type::tensor(in[0].dtype, shape);
}

Meaning tile_means(const Tile& a, Types in) {
  Meaning m;
  m.out = tile_infer(a, in).value_or_throw().shape;
  Read r;
  for (size_t d = 0; d < m.out.size(); ++d) {
    IndexExpr e = index_of(static_cast<int>(d));
    if (a.repeats[d] != 1) e = {.affine = {}, .digits = {{.of = e.affine, .mod = in[0].shape[d]}}};
    r.index.push_back(e);
  }
  m.reads = {r};
  return m;
}

struct Triangle {
  bool upper = true;
  int64_t k = 0;  // the diagonal where it begins
  EMEND_FIELDS(upper, k)
};

Meaning triangle_means(const Triangle& a, Types in) {
  Meaning m;
  m.out = in[0].shape;
  m.reads = {broadcast_read(0, in[0].shape, in[0].shape.size())};
  // Shapes where an extent is 1 are read at 0, but the position still counts.
  auto column = static_cast<int>(in[0].rank()) - 1;
  Scalar diagonal = iter(column) - iter(column - 1), k = static_cast<double>(a.k);
  m.body = select(a.upper ? k <= diagonal : diagonal <= k, arg(0), 0);
  return m;
}

// The same as a choice by a constant mask, for opsets that have no operator for it.
NodeId triangle_expand(GraphBuilder& b, const Triangle& a, Args args) {
  const Dims& shape = b.shape(args[0]);
  Dims plane(shape.end() - 2, shape.end());
  std::vector<double> kept;
  for (int64_t i = 0; i < plane[0]; ++i)
    for (int64_t j = 0; j < plane[1]; ++j) kept.push_back(a.upper ? a.k <= j - i : j - i <= a.k);
  NodeId mask = b.constant(Tensor::of_reals(DType::boolean, plane, kept));
  return b.op("where", {mask, args[0], b.scalar(0, b.dtype(args[0]))});
}

struct DepthToSpace {
  int64_t blocksize = 1;
  std::string mode = "DCR";  // which is slower in the channels: column (and row) or depth
  EMEND_FIELDS(blocksize, mode)
};
struct SpaceToDepth {
  int64_t blocksize = 1;
  EMEND_FIELDS(blocksize)
};

Dims image_shape(GraphBuilder& b, NodeId x, int64_t blocksize) {
  if (b.shape(x).size() != 4 || blocksize < 1 || blocksize > 65536)
    throw Error(str("needs x[n,c,h,w] and a positive block, got ", shape_text(b.shape(x))));
  return b.shape(x);
}

NodeId depth_to_space_expand(GraphBuilder& b, const DepthToSpace& a, Args args) {
  Dims x = image_shape(b, args[0], a.blocksize);
  int64_t s = a.blocksize, depth = x[1] / (s * s);
  if (depth * s * s != x[1]) throw Error(str(x[1], " channels do not make blocks of ", s));
  bool blocks_first = a.mode == "DCR";
  Dims apart =
      blocks_first ? Dims{x[0], s, s, depth, x[2], x[3]} : Dims{x[0], depth, s, s, x[2], x[3]};
  Dims perm = blocks_first ? Dims{0, 3, 4, 1, 5, 2} : Dims{0, 1, 4, 2, 5, 3};
  NodeId moved = b.op("transpose", {b.op("reshape", {args[0]}, Reshape{apart})}, Transpose{perm});
  return b.op("reshape", {moved}, Reshape{{x[0], depth, x[2] * s, x[3] * s}});
}

NodeId space_to_depth_expand(GraphBuilder& b, const SpaceToDepth& a, Args args) {
  Dims x = image_shape(b, args[0], a.blocksize);
  int64_t s = a.blocksize, h = x[2] / s, w = x[3] / s;
  if (h * s != x[2] || w * s != x[3])
    throw Error(str("image ", shape_text(x), " does not split into blocks of ", s));
  NodeId apart = b.op("reshape", {args[0]}, Reshape{{x[0], x[1], h, s, w, s}});
  NodeId moved = b.op("transpose", {apart}, Transpose{{0, 3, 5, 1, 2, 4}});
  return b.op("reshape", {moved}, Reshape{{x[0], x[1] * s * s, h, w}});
}

}  // namespace

std::vector<OpDef> rearrange_ops() {
  return {
      define<Tile>({.name = "tile",
                    .kind = Kind::movement,
                    .traits = multilinear,
                    .infer = tile_infer,
                    .means = tile_means,
                    .onnx = {{.type = "Tile", .since = 6, .operands = {{"repeats", 1}}}},
                    .doc = "repeated repeats[d] times along each dimension"}),
      define<Triangle>(
          {.name = "triangle",
           .kind = Kind::movement,
           .traits = multilinear | idempotent,
           .infer = [](const Triangle&, Types in) -> Result<Type> {
             if (in[0].rank() < 2) return fail("triangle: ", to_text(in[0]), " is no matrix");
             return in[0];
           },
           .means = triangle_means,
           .expand = triangle_expand,
           .onnx = {{.type = "Trilu", .since = 14, .operands = {{"k", 1}}}},
           .doc = "the upper (or lower) triangle of matrices from diagonal k; zeros elsewhere"}),
      define<DepthToSpace>(
          {.name = "depth_to_space",
           .kind = Kind::movement,
           .traits = multilinear,
           .expand = depth_to_space_expand,
           .onnx = {{.type = "DepthToSpace", .since = 11},
                    {.type = "DepthToSpace",
                     .before = 11,
                     .raise =
                         [](OnnxWriter& w) {
                           auto a = w.attrs.as<DepthToSpace>();
                           if (a.mode != "DCR") return std::vector<NodeId>{};
                           return w.emit("DepthToSpace", w.args, {{"blocksize", a.blocksize}});
                         }}},
           .doc = "channels become blocks of pixels"}),
      define<SpaceToDepth>({.name = "space_to_depth",
                            .kind = Kind::movement,
                            .traits = multilinear,
                            .expand = space_to_depth_expand,
                            .onnx = {{"SpaceToDepth"}},
                            .doc = "blocks of pixels become channels"}),
  };
}

}  // namespace emend
