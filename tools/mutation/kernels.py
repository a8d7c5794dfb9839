"""Mistakes in the runtime crate, each with the cargo test that must fail."""

from __future__ import annotations

from tools.mutation.model import Mutation


class _File:
    """Rows of one file and one family."""

    def __init__(self, family: str, path: str) -> None:
        self.family, self.path = family, path

    def __call__(self, mistake: str, test: str, text: str, wrong: str) -> Mutation:
        return Mutation(self.family, mistake, self.path, text, wrong, test)


_math = _File("unary", "rxt_kernels/math.rs")
_unary = _File("unary", "rxt_kernels/elementwise.rs")
_binary = _File("binary", "rxt_kernels/elementwise.rs")
_gather = _File("views", "rxt_kernels/elementwise.rs")
_view = _File("views", "rxt_kernels/view.rs")
_reduce = _File("reductions", "rxt_kernels/reduce.rs")
_softmax = _File("softmax", "rxt_kernels/softmax.rs")
_argmax = _File("argmax", "rxt_kernels/argmax.rs")
_tiles = _File("matmul: tiles", "rxt_kernels/tiles.rs")
_sweep = _File("matmul: sweep", "rxt_kernels/sweep.rs")
_packed = _File("matmul: packed", "rxt_kernels/packed.rs")
_matmul = _File("matmul", "rxt_kernels/matmul.rs")
_region = _File("region", "rxt_engine/region.rs")
_evaluate = _File("evaluate", "rxt_engine/evaluate.rs")
_evaluate_elementwise = _File("evaluate", "rxt_engine/evaluate/elementwise.rs")
_evaluate_product = _File("evaluate", "rxt_engine/evaluate/product.rs")
_evaluate_reduce = _File("evaluate", "rxt_engine/evaluate/reduce.rs")
_evaluate_softmax = _File("evaluate", "rxt_engine/evaluate/softmax.rs")
_evaluate_argmax = _File("evaluate", "rxt_engine/evaluate/argmax.rs")
_node = _File("evaluate", "rxt_engine/node.rs")
_parallel = _File("threads", "rxt_engine/parallel.rs")
_buffer = _File("buffer", "rxt_engine/buffer.rs")
_shape = _File("shapes", "rxt_core/shape.rs")

_IN_BUFFER = "lib::rxt_engine::buffer::tests::"
_IN_PARALLEL = "lib::rxt_engine::parallel::tests::"
_IN_SHAPE = "lib::rxt_core::shape::tests::"

KERNELS = (
    _math(
        "relu drops NaN", "unary::edges_as_eager",
        "s.max(s.splat(0.0), x)", "s.max(x, s.splat(0.0))",
    ),
    _math(
        "exp drops NaN", "unary::edges_as_eager",
        "s.max(s.splat(EXP_LOW), x)", "s.max(x, s.splat(EXP_LOW))",
    ),
    _math(
        "sigmoid drops NaN", "unary::edges_as_eager",
        "s.max(s.splat(EXP_LOW), s.neg(s.abs(x)))", "s.max(s.neg(s.abs(x)), s.splat(EXP_LOW))",
    ),
    _math(
        "exp scales by one part of ln 2", "unary::within_bounds",
        "(«s.neg_mul_add(n, s.splat(LN2_LOW), r)», n, t)", "r",
    ),
    _math(
        "log scales by one part of ln 2", "unary::within_bounds",
        "let y = «s.mul_add(e, s.splat(LN2_LOW), y)»;", "y",
    ),
    _math(
        "tanh loses the sign of zero", "unary::edges_as_eager",
        "s.copysign(s.select(s.lt(a, s.splat(0.625)), small, large), x)",
        "s.mul(s.select(s.lt(a, s.splat(0.625)), small, large), s.select(s.lt(x, s.splat(0.0)), "
        "s.splat(-1.0), one))",
    ),
    _math(
        "gelu squares without the rest", "unary::within_bounds",
        "s.mul_add(n, s.splat(2.0 * LN2_LOW), «rest»)", "s.splat(0.0)",
    ),
    _unary(
        "the tail is one element short", "unary::nan_at_the_ends_of_every_length",
        "s.store_head(out, f.of(s, s.load_head(a, left)), left);",
        "s.store_head(out, f.of(s, s.load_head(a, left)), left - 1);",
    ),
    _unary(
        "the portable loop starts at the second element", "unary::the_same_everywhere",
        "for i in «0..n» {\n                    s.store(out.add(i), f.of(s, s.load(a.add(i))));",
        "1..n.max(1)",
    ),
    _unary(
        "vectors of a block overlap", "unary::the_same_everywhere",
        "*x = s.load(a.add(«k * S::LANES»));", "k",
    ),
    _binary(
        "add drops NaN", "unary::binary_is_exact",
        "Add(s, a, b) = «s.add(a, b)»;", "s.max(s.add(a, b), s.splat(f32::MIN))",
    ),
    _binary(
        "division by way of the reciprocal", "unary::binary_is_exact",
        "Div(s, a, b) = «s.div(a, b)»;", "s.mul(a, s.div(s.splat(1.0), b))",
    ),
    _binary(
        "the tail is one element short", "unary::binary_is_exact",
        "s.store_head(out, f.of(s, x, y), left);", "s.store_head(out, f.of(s, x, y), left - 1);",
    ),
    _binary(
        "vectors of a block overlap", "unary::binary_is_exact",
        "let at = «k * S::LANES»;", "k",
    ),
    _binary(
        "the operands are exchanged", "unary::binary_is_exact",
        "WithLeft::<S, F>(s.splat(a), f);\n                «map::<S, _, true>(s, f, out, b, n);»",
        "map::<S, _, true>(s, WithRight::<S, F>(f.1, s.splat(a)), out, b, n);",
    ),
    _gather(
        "the stride is one element short", "unary::gather_reads_any_stride",
        "p = p.wrapping_offset(«stride»);", "(stride - stride.signum())",
    ),
    _gather(
        "blocks of a transposed copy are not strided",
        "reduce::softmax_of_every_length_and_layout",
        "«stride».wrapping_mul(c0 as isize)", "1isize",
    ),
    _view(
        "a strided row is taken for an adjacent one", "reduce::sums_of_every_length_and_layout",
        "self.col_stride == 1 || self.cols <= 1", "true",
    ),
    _view(
        "a range of rows begins at the first",
        "engine::large_work_of_every_kind_is_split_with_equal_results",
        "ptr: «self.row(from)»", "self.ptr",
    ),
    _reduce(
        "the maximum drops NaN in a whole vector", "reduce::maximum_keeps_nan",
        "nan = s.or(nan, s.unordered(x, x));", "();",
    ),
    _reduce(
        "the maximum drops NaN in a block", "reduce::maximum_keeps_nan",
        "s.unordered(x[2], x[3])", "s.unordered(x[2], x[2])",
    ),
    _reduce(
        "the maximum drops NaN in the tail", "reduce::maximum_keeps_nan",
        "nan |= «x.is_nan()»;", "false",
    ),
    _reduce(
        "the tail is one element short", "reduce::sums_of_every_length_and_layout",
        "s.load_head(p.add(i), «n - i»)", "n - i - 1",
    ),
    _reduce(
        "the portable sum forgets the rest", "reduce::sums_of_every_length_and_layout",
        "acc.iter().sum::<f64>() + «rest»;", "0.0 * rest",
    ),
    _reduce(
        "the stride is one element short", "reduce::sums_of_every_length_and_layout",
        "p = p.wrapping_offset(«stride»);", "(stride - stride.signum())",
    ),
    _reduce(
        "every block of columns is the first", "reduce::sums_of_every_length_and_layout",
        "a.at(«block * WIDTH», c + k)", "block * 0",
    ),
    _reduce(
        "the mean scales by the reciprocal", "reduce::sums_of_every_length_and_layout",
        "sum as f32 / n as f32", "sum as f32 * (1.0 / n as f32)",
    ),
    _reduce(
        "the mean divides before it rounds", "reduce::sums_that_cancel",
        "sum as f32 / n as f32", "(sum / n as f64) as f32",
    ),
    _reduce(
        "a strided sum runs in f32", "reduce::sums_of_every_length_and_layout",
        "acc[i % 4] += «f64::from(unsafe { *p })»;",
        "f64::from(acc[i % 4] as f32 + unsafe { *p }) - acc[i % 4]",
    ),
    _softmax(
        "the sum drops NaN in the tail", "reduce::softmax_cases",
        "acc[1] = s.add(acc[1], «s.load_head(out.add(i), left)»);",
        "s.max(s.load_head(out.add(i), left), s.splat(0.0))",
    ),
    _softmax(
        "the sum drops NaN in a whole vector", "reduce::softmax_cases",
        "acc[0] = s.add(acc[0], «e»);", "s.max(e, s.splat(0.0))",
    ),
    _softmax(
        "the sum drops NaN in a block", "reduce::softmax_cases",
        "*x = s.add(*x, «e»);", "s.max(e, s.splat(0.0))",
    ),
    _softmax(
        "the sum of a column drops NaN", "reduce::softmax_cases",
        "s.d_store(t, s.d_add(s.d_load(t), «e»));", "s.max(e, s.splat(0.0))",
    ),
    _softmax(
        "the tail is one element short", "reduce::softmax_of_every_length_and_layout",
        "s.store_head(out.add(i), over(s, e, total, inverse), «n - i»);", "n - i - 1",
    ),
    _softmax(
        "the tail of a line of columns is one element short",
        "reduce::softmax_of_every_length_and_layout",
        "s.store_some(self.place(r).add(i), over(s, e, t, v), «self.width - i»);",
        "self.width - i - 1",
    ),
    _softmax(
        "rows lie one row's length apart", "reduce::softmax_of_every_length_and_layout",
        "let from = a.wrapping_offset(«stride».wrapping_mul(r as isize));", "(cols as isize)",
    ),
    _softmax(
        "the maximum is divided out instead of subtracted",
        "reduce::softmax_of_every_length_and_layout",
        "math::exp(s, s.sub(s.load(a.add(at)), max))",
        "s.div(math::exp(s, s.load(a.add(at))), math::exp(s, max))",
    ),
    _softmax(
        "the maximum of columns is not subtracted", "reduce::softmax_cases",
        "math::exp(s, s.sub(x, «s.load(max.as_ptr().add(i))»))", "s.splat(0.0)",
    ),
    _argmax(
        "a NaN in a row is passed over", "reduce::argmax_cases",
        "if «nan» {\n                        index = start + find(s, p, len, None);", "false",
    ),
    _argmax(
        "a NaN in a strided row is passed over", "reduce::argmax_of_every_length_and_layout",
        "if «x.is_nan()» {\n            return i as i64;", "false",
    ),
    _argmax(
        "the last NaN of a column wins", "reduce::argmax_cases",
        "s.and(s.not_le(x, old), s.eq(old, old))", "s.not_le(x, old)",
    ),
    _argmax(
        "the last of equal maxima wins", "reduce::argmax_of_every_length_and_layout",
        "if «max > best» {", "max >= best",
    ),
    _argmax(
        "the last of equal maxima of a strided row wins",
        "reduce::argmax_of_every_length_and_layout",
        "if «x > best» {", "x >= best",
    ),
    _argmax(
        "the place of a maximum is one off in the tail",
        "reduce::argmax_of_every_length_and_layout",
        "if key.map_or(x.is_nan(), |key| x == key) {\n                «break;»",
        "{ i += 1; break; }",
    ),
    _argmax(
        "the stride is one element short", "reduce::argmax_of_every_length_and_layout",
        "p = p.wrapping_offset(«stride»);", "(stride - stride.signum())",
    ),
    _argmax(
        "every block of columns is the first", "reduce::argmax_of_every_length_and_layout",
        "self.a.at(«block * WIDTH», c)", "block * 0",
    ),
    _tiles(
        "a tile drops NaN", "matmul::nan_and_infinity_go_through",
        "acc[t] = «s.mul_add(x, *y, acc[t])»;", "s.max(s.mul_add(x, *y, acc[t]), s.splat(-1e38))",
    ),
    _tiles(
        "the tail of a tile of dot products is one element short",
        "matmul::awkward_sizes_and_layouts",
        "let left = «to - p»;", "to - p - 1",
    ),
    _tiles(
        "the tail of a dot product forgets the sum before", "matmul::vectors",
        "acc[u % N] = s.mul_add(x, y, «acc[u % N]»);", "s.splat(0.0)",
    ),
    _tiles(
        "the sums of a dot product are added up but for one", "matmul::vectors",
        "for u in «0..n» {\n            acc[u] = s.add(acc[u], acc[u + n]);", "1..n",
    ),
    _tiles(
        "a chain begins with what the one before had", "matmul::awkward_sizes_and_layouts",
        "acc = [s.splat(0.0); T];\n            from = to;", "from = to;",
    ),
    _tiles(
        "steps along k are not strided", "matmul::awkward_sizes_and_layouts",
        "let at = «p.a_step».wrapping_mul(q as isize);", "1isize",
    ),
    _tiles(
        "rows of b lie one row's length apart", "matmul::awkward_sizes_and_layouts",
        "let row = b.wrapping_offset(«p.b_row».wrapping_mul(q as isize));", "(p.n as isize)",
    ),
    _tiles(
        "the tail of the columns is one element short", "matmul::awkward_sizes_and_layouts",
        "s.store_some(to.add(at), x, «left - at»);", "left - at - 1",
    ),
    _sweep(
        "the tail of a line is one element short", "matmul::awkward_sizes_and_layouts",
        "s.store_some(out.add(i), s.add(x, y), «n - i»);", "n - i - 1",
    ),
    _sweep(
        "steps along k are not strided", "matmul::awkward_sizes_and_layouts",
        "«p.a_step».wrapping_mul(q as isize)", "1isize",
    ),
    _sweep(
        "the bias of a later stretch is that of the first", "matmul::awkward_sizes_and_layouts",
        "add_scaled(s, out, &[bias.add(«j»)], &[1.0]);", "0",
    ),
    _packed(
        "a tile drops NaN", "matmul::nan_and_infinity_go_through",
        "acc[r * NV + v] = «s.mul_add(x, *y, acc[r * NV + v])»;",
        "s.max(s.mul_add(x, *y, acc[r * NV + v]), s.splat(-1e38))",
    ),
    _packed(
        "the last column is not packed", "matmul::awkward_sizes_and_layouts",
        "let left = here.saturating_sub(«j»);", "j + 1",
    ),
    _packed(
        "a later block of k overwrites", "matmul::awkward_sizes_and_layouts",
        "add: «q0 > 0»", "false",
    ),
    _packed(
        "every block of k adds the bias", "matmul::awkward_sizes_and_layouts",
        "bias: «q0 + kc == p.k»", "true",
    ),
    _packed(
        "every block of rows is the first", "matmul::awkward_sizes_and_layouts",
        "offset(p.a, «i0», p.a_row, q0, p.a_step)", "i0 * 0",
    ),
    _packed(
        "every block of columns is the first", "matmul::awkward_sizes_and_layouts",
        "offset(p.b, q0, p.b_row, «j0», b_step)", "j0 * 0",
    ),
    _packed(
        "a column is packed without its stride", "matmul::awkward_sizes_and_layouts",
        "*place.add(c) = **from;\n                        *from = from.wrapping_offset(«row»);",
        "row.signum()",
    ),
    _packed(
        "the rest of a tile's rows is one row short", "matmul::awkward_sizes_and_layouts",
        "for r in 0..MR.min(«p.m - at.i») {", "p.m - at.i - 1",
    ),
    _matmul(
        "the activation comes before the bias", "matmul::awkward_sizes_and_layouts",
        "«if let Some(bias) = bias {\n"
        "            binary_scalar_in_place(isa, Binary::Add, out, bias);\n"
        "        }\n        if let Some(op) = epilogue.op {\n"
        "            unary_in_place(isa, op, out);\n        }»\n        return;\n    }\n"
        "    matmul_by",
        "if let Some(op) = epilogue.op { unary_in_place(isa, op, out); } "
        "if let Some(bias) = bias { binary_scalar_in_place(isa, Binary::Add, out, bias); }",
    ),
    _matmul(
        "an empty inner size forgets the bias", "matmul::empty_products",
        "Some(bias) => «row.copy_from_slice(bias)»,", "row.fill(0.0 * bias[0])",
    ),
    _matmul(
        "a strided operand is read as it lies", "matmul::awkward_sizes_and_layouts",
        "let a = if by_rows && «!a.unit_rows()» {", "false",
    ),
    _region(
        "a block of rows begins one column's width off",
        "engine::chains_over_every_layout_and_size",
        "leaf.column_stride.wrapping_mul(«block.columns.start as isize»)", "0isize",
    ),
    _region(
        "a chunk is written where the one before was", "engine::chains_over_every_layout_and_size",
        "* stride + «(column - columns.start)»;", "(column - columns.start) / 2",
    ),
    _region(
        "the register of a value is reused too early",
        "engine::a_value_used_twice_and_met_again_is_right",
        "if «uses[value] == 0» {", "true",
    ),
    _region(
        "rows of a strided leaf are taken for adjacent",
        "engine::chains_over_every_layout_and_size",
        "let one_row = «rows == 1 || leaf.row_stride == leaf.columns as isize»;", "true",
    ),
    _region(
        "what was prepared for other columns is used again",
        "engine::broadcasting_rows_columns_and_scalars",
        "let same = «prepared.rows >= block.rows && prepared.columns == block.columns»;",
        "prepared.rows > 0 || block.rows > 1",
    ),
    _region(
        "a strided leaf is read without its row stride",
        "engine::chains_over_every_layout_and_size",
        "«leaf.row_stride».wrapping_mul(index as isize)", "(width as isize)",
    ),
    _region(
        "a chain over transposed leaves is taken for one by rows",
        "engine::chains_over_every_layout_and_size",
        "leaves.iter_mut().for_each(|leaf| *leaf = leaf.transposed());\n"
        "            «Order::Columns»",
        "Order::Rows",
    ),
    _evaluate(
        "the activation of a product is lost",
        "engine::products_with_bias_and_activation_in_every_layout",
        "self.product(shape, &product, «Some(*op)»)", "None",
    ),
    _evaluate_product(
        "every part of a row takes the first biases",
        "engine::products_with_bias_and_activation_in_every_layout",
        "&bias[«part.clone()»]", "0..part.len()",
    ),
    _evaluate(
        "a product is taken from an operation that still needs it",
        "engine::a_product_that_may_be_used_again_is_kept",
        "let only = «input.count() == 1 || (self.last && input.consumers() == 1)»;", "true",
    ),
    _evaluate_elementwise(
        "a single operation reads every part from the start",
        "engine::large_work_of_every_kind_is_split_with_equal_results",
        "view.get().data.wrapping_add(«part.start»)", "part.start * 0",
    ),
    _evaluate_elementwise(
        "operands of different order are taken together",
        "engine::chains_over_every_layout_and_size",
        "(«left.1 == order»).then_some(Readable(right))?", "true",
    ),
    _evaluate_reduce(
        "only the last chunk of a row is summed up",
        "engine::reductions_of_inputs_and_of_pending_operations",
        "total += «sum(self.isa, memory.part(0, count))»;",
        "sum(self.isa, memory.part(0, count)) - total",
    ),
    _evaluate_reduce(
        "every part of a long row is the first",
        "engine::large_work_of_every_kind_is_split_with_equal_results",
        "«operand.matrix().column_range(part.start, part.end)»;\n                sum_rows",
        "operand.matrix().column_range(0, part.len())",
    ),
    _evaluate(
        "a region that lies by columns is reduced by rows",
        "engine::reductions_of_inputs_and_of_pending_operations",
        "Ok((«region.order == Order::Rows»).then_some(SharedRegion(region)))", "true",
    ),
    _evaluate_softmax(
        "softmax computes the first rows of a region again",
        "engine::softmax_along_both_dimensions",
        "region.0.run(self.isa, «row..row + count», 0..columns, to, columns);",
        "part.start..part.start + count",
    ),
    _evaluate_product(
        "a column is multiplied as a row", "engine::a_matrix_times_a_column",
        "let transposed = «product.right_transposed || product.right_is_column»;",
        "product.right_transposed",
    ),
    _evaluate_argmax(
        "argmax of every part reads the first rows",
        "engine::large_work_of_every_kind_is_split_with_equal_results",
        "argmax_rows(self.isa, out, «operand.matrix().row_range(part.start, part.end)»);",
        "operand.matrix().row_range(0, part.len())",
    ),
    _node(
        "a broadcast row keeps its stride", "engine::broadcasting_rows_columns_and_scalars",
        "row_stride: if «self.rows == 1» { 0 }", "self.rows == 0",
    ),
    _parallel(
        "each part is one step short", _IN_PARALLEL
        + "every_index_is_visited_once",
        "work(start(index)..«start(index + 1)»)", "start(index + 1) - 1",
    ),
    _buffer(
        "elements begin off the cache line", _IN_BUFFER + "elements_are_aligned_and_writable",
        "self.block.as_ptr().add(«HEADER_BYTES»)", "HEADER_BYTES - 4",
    ),
    _buffer(
        "a kept block is used for more than it holds",
        _IN_BUFFER + "a_kept_block_holds_what_it_is_used_for",
        "«size >= bytes» && size <= bytes + bytes / 4", "size * 2 >= bytes",
    ),
    _buffer(
        "the pool keeps everything", _IN_BUFFER + "the_pool_is_bounded",
        "while «self.bytes + bytes > POOL_BYTES» {", "false",
    ),
    _buffer(
        "a thread keeps every small block", _IN_BUFFER + "a_thread_keeps_few_small_blocks",
        "if «self.0.len() >= SMALL_BLOCKS» {", "false",
    ),
    _buffer(
        "the size of a block overflows", _IN_BUFFER + "too_much_is_an_error",
        "count\n            .checked_mul(size)", "count.checked_mul(size).or(Some(0))",
    ),
    _shape(
        "a size of 1 is not broadcast against an empty one",
        _IN_SHAPE + "broadcast_follows_the_last_dimension",
        "(1, b) => «b»,", "b.max(1)",
    ),
    _shape(
        "an in-place result may be larger than its first operand",
        _IN_SHAPE + "an_in_place_result_has_the_shape_of_the_first_operand",
        "if «shape != *left» {", "false",
    ),
    _shape(
        "a bias of another length is accepted", _IN_SHAPE + "linear_checks_weight_and_bias",
        "Some(bias) if «bias[0] != weight[0]» && bias[0] != 1", "bias[0] > weight[0]",
    ),
    _shape(
        "an empty dimension has a largest value",
        _IN_SHAPE + "an_empty_dimension_has_no_largest_value",
        "if «shape[dim] == 0» {", "false",
    ),
)  # fmt: skip
