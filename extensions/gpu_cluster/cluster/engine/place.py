"""Where the ranks of a job go: candidates for each policy, and the servers and GPUs behind them."""

from __future__ import annotations

from cosim.compiled.compiling import part
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine import rows as r
from cosim.extensions.gpu_cluster.cluster.engine.rows import Record, real, whole
from cosim.extensions.gpu_cluster.cluster.engine.wire import demand_ok, wish

LARGE = 1 << 40
NOTHING = 1 << 62  # worse than any allocation
_ENUMERATE = 4000  # allocations that are all tried
_SPLITS = 6  # even splits that are tried


@part
def _eligible(s: Record, k: int) -> int:
    """GPUs of leaf k that whole-GPU jobs may take."""
    if r.leaf(s.leaf, k).down:
        return 0
    free: int = r.leaf(s.leaf, k).free
    return free


@part
def take(s: Record, n: int, m: int, k: int, most: int) -> int:
    """Put up to `most` of the ranks that are left on leaf k, as the m-th leaf; how many were put."""
    found = min(_eligible(s, k), n, most)
    if found > 0:
        r.cell(s, l.AT, m).v = k
        r.cell(s, l.COUNT, m).v = found
    return found


@part
def single(s: Record, n: int) -> int:
    """The leaf with the least room that holds n ranks, -1: none."""
    best, found = LARGE, l.NONE
    for k in range(s.leaves):
        free = r.leaf(s.leaf, k).free
        if free >= n and free < best and not r.leaf(s.leaf, k).down:
            best, found = free, k
            if free == n:
                break
    return found


@part
def survey(s: Record) -> None:
    """List the leaves with room, ascending, in OPEN, and their number in `open`: in a busy cluster few."""
    listed, count = r.line(s, l.OPEN), 0
    for k in range(s.leaves):
        if _eligible(s, k) > 0:
            whole(listed, count).v = k
            count += 1
    s.open = count


@part
def _rank(s: Record, k: int, by_uplinks: bool) -> int:
    """How much room leaf k has, as a number by which no two leaves are equal; less is more room, 0: none."""
    free = _eligible(s, k)
    if by_uplinks:
        free = min(free, r.leaf(s.leaf, k).up)
    return -free * s.leaves + k if free > 0 else 0


@part
def roomiest(s: Record, after: int, by_uplinks: bool) -> int:
    """The rank of the roomiest leaf behind rank `after`, 0: there is none. Its leaf is the rank modulo `leaves`.

    Of equals the one with the least index comes first. `by_uplinks`: a leaf counts with no more room than
    its free uplinks, one for each rank.
    """
    best, listed = 0, r.line(s, l.OPEN)
    for e in range(s.open):
        rank = _rank(s, whole(listed, e).v, by_uplinks)
        if after < rank < best:
            best = rank
    return best


@part
def spread(s: Record, n: int, placement: int) -> int:
    """Ranks over several of the leaves in OPEN, by the policy; how many leaves, 0 when there is no room."""
    m, left, listed = 0, n, r.line(s, l.OPEN)
    if placement == l.FIRST_FIT:
        for e in range(s.open):
            if left == 0:
                break
            left -= take(s, left, e, whole(listed, e).v, left)
            m += 1
        return m if left == 0 else 0
    after = -LARGE
    if placement == l.BALANCED:
        room = 0
        while room < n:
            after = roomiest(s, after, False)
            if after == 0:
                return 0
            r.cell(s, l.SORTED, m).v = after % s.leaves
            room += _eligible(s, after % s.leaves)
            m += 1
        for i in range(m - 1, -1, -1):  # the least roomy first: the others take what it lacks
            left -= take(s, left, i, r.cell(s, l.SORTED, i).v, left // (i + 1))
        return m
    uplinks = placement == l.UPLINKS
    while left > 0:
        after = roomiest(s, after, uplinks)
        if after == 0:
            return 0
        k = after % s.leaves
        if _eligible(s, k) >= left:  # the last leaf: the one with the least room that does
            best, last = LARGE, k
            for e in range(s.open):
                other = whole(listed, e).v
                free = _eligible(s, other)
                behind = _rank(s, other, uplinks)
                enough = not uplinks or r.leaf(s.leaf, other).up >= min(left, r.leaf(s.leaf, k).up)
                if left <= free < best and after <= behind < 0 and enough:
                    best, last = free, other
            k = last
        left -= take(s, left, m, k, left)
        m += 1
    return m


@part
def candidate(s: Record, n: int, placement: int) -> int:
    """One allocation in AT and COUNT by the policy; how many leaves it has, 0: no room."""
    if s.free < n:
        return 0
    if placement == l.FIRST_FIT:
        for k in range(s.leaves):
            if _eligible(s, k) >= n:
                take(s, n, 0, k, n)
                return 1
        survey(s)
        return spread(s, n, placement)
    if placement == l.BALANCED:
        best, found = 0, l.NONE
        for k in range(s.leaves):
            if _eligible(s, k) >= n and _eligible(s, k) > best:
                best, found = _eligible(s, k), k
    elif placement in (l.PCIE, l.POWER):
        found = by_servers(s, n, placement)
    else:
        found = single(s, n)
    if found >= 0:
        take(s, n, 0, found, n)
        return 1
    survey(s)
    return spread(s, n, l.PACK if placement in (l.PCIE, l.POWER) else placement)


@part
def _cost(s: Record, x: int, left: int, placement: int) -> int:
    """What is against `left` ranks, or as many as there is room for, on server x: least is best.

    PCIE: more PCIe domains than it takes, then room left in the domain. POWER: how many s longer the
    server has work. Else and then: room left on the server.
    """
    server = r.server(s.server, x)
    free = server.free
    if left >= s.per_server:
        return int(s.per_server - free)
    if free < left:
        return int(LARGE - free)
    if placement == l.PCIE and left <= s.domain:
        best = 1000 + free - left
        for d in range(s.per_server // s.domain):
            room = bits((server.mask >> (d * s.domain)) & ((1 << s.domain) - 1))
            if room >= left:
                best = min(best, 10 * (room - left) + (free > room))
        return int(best)
    cost = free - left
    if placement == l.POWER:
        until = max(s.now, server.until) if server.used > 0 else s.now
        cost += 64 * int(min(max(0.0, s.until - until), 1e8))
    return int(cost)


@part
def by_servers(s: Record, n: int, placement: int) -> int:
    """The leaf with whole servers for as many of n ranks as can be, and the best server for the rest. -1: none."""
    best, found, rest = NOTHING, l.NONE, n % s.per_server
    for k in range(s.leaves):
        free = _eligible(s, k)
        if free < n:
            continue
        lacking, least = n // s.per_server, LARGE if rest else 0
        first = r.leaf(s.leaf, k).first
        for x in range(first, first + r.leaf(s.leaf, k).servers):
            if r.server(s.server, x).free == s.per_server:
                lacking -= 1
            if rest and r.server(s.server, x).free > 0:
                least = min(least, _cost(s, x, rest, placement))
        cost = max(0, lacking) * (1 << 52) + least * 1024 + min(free, 1023)
        if cost < best:
            best, found = cost, k
    return found


@part
def _goal(s: Record, m: int, circuits: int) -> int:
    """What is best about an allocation: few circuits, then few leaves, then little room left on its leaves."""
    rest = 0
    for i in range(m):
        rest += r.leaf(s.leaf, r.cell(s, l.AT, i).v).free - r.cell(s, l.COUNT, i).v
    return circuits * 1_000_000_000 + m * 1_000_000 + min(rest, 999_999)


@part
def _keep(s: Record, m: int) -> None:
    for i in range(m):
        r.cell(s, l.BEST_AT, i).v = r.cell(s, l.AT, i).v
        r.cell(s, l.BEST_COUNT, i).v = r.cell(s, l.COUNT, i).v


@part
def _judge(s: Record, j: int, m: int, best: int) -> int:
    """What is best about the allocation in AT and COUNT, which is kept when it fits and is better than `best`."""
    if s.strict and s.network != l.ROUTED and _goal(s, m, wish(s, j, m)) >= best:
        return best
    circuits = demand_ok(s, j, m)
    s.wired = l.NONE
    if circuits >= 0:
        goal = _goal(s, m, circuits)
        if goal < best:
            s.wired = circuits
            _keep(s, m)
            return goal
    return best


@part
def exhaustive(s: Record, j: int) -> int:
    """The best of all allocations of job j that fit, in AT and COUNT; how many leaves, 0: none fits.

    While there are few allocations, each is tried, in lexicographic order, and among equals the first
    counts. Otherwise those are tried that take whole the roomiest leaves, by room and by free uplinks,
    for each number of leaves. `wired` is left at the circuits when those that stand in UNIT_A, UNIT_B
    and ON are the best one's.
    """
    n, ways, room = r.job(s.job, j).n, 1, 0
    sizes, rest, chosen, who = r.line(s, l.SORTED), r.line(s, l.GROUP), r.line(s, l.TRY), r.line(s, l.OPEN)
    survey(s)
    open_leaves = s.open
    for e in range(open_leaves):
        whole(sizes, e).v = min(_eligible(s, whole(who, e).v), n)
        room += whole(sizes, e).v
        ways = min(ways * (1 + whole(sizes, e).v), NOTHING >> 20)
    best, found = NOTHING, 0
    if ways <= _ENUMERATE:
        if room < n:
            return 0
        i, left = 0, n  # leaves that have their part; ranks without
        whole(rest, 0).v = room - whole(sizes, 0).v  # room behind each leaf
        whole(chosen, 0).v = max(0, n - whole(rest, 0).v) - 1
        while i >= 0:
            whole(chosen, i).v += 1
            put = whole(chosen, i).v
            if put > min(whole(sizes, i).v, left):
                i -= 1
                if i >= 0:
                    left += whole(chosen, i).v
                continue
            if i < open_leaves - 1:
                left -= put
                i += 1
                whole(rest, i).v = whole(rest, i - 1).v - whole(sizes, i).v
                whole(chosen, i).v = max(0, left - whole(rest, i).v) - 1
                continue
            m = 0
            for e in range(open_leaves):
                if whole(chosen, e).v > 0:
                    r.cell(s, l.AT, m).v = whole(who, e).v
                    r.cell(s, l.COUNT, m).v = whole(chosen, e).v
                    m += 1
            goal = _judge(s, j, m, best)
            if goal < best:
                best, found = goal, m
    else:
        for way in range(4):
            m = candidate(s, n, (l.BEST_FIT, l.UPLINKS, l.BALANCED, l.FIRST_FIT)[way])
            if m > 0:
                goal = _judge(s, j, m, best)
                if goal < best:
                    best, found = goal, m
            if found == 1:
                break
        if found == 0:
            found = _by_leaves(s, j)
    for i in range(found):
        r.cell(s, l.AT, i).v = r.cell(s, l.BEST_AT, i).v
        r.cell(s, l.COUNT, i).v = r.cell(s, l.BEST_COUNT, i).v
    return found


@part
def _by_leaves(s: Record, j: int) -> int:
    """An even split of job j over m leaves with the most free uplinks that hold their part, for the least m.

    Of the numbers of leaves that have room, the six least are tried.
    """
    n, leaves, tries, listed = r.job(s.job, j).n, s.leaves, 0, r.line(s, l.OPEN)
    for m in range(2, min(s.open, n, 64) + 1):
        if tries == _SPLITS:
            break
        share, after, found, left = -(-n // m), -LARGE, 0, n
        while found < m:  # the leaf with the most free uplinks of those that hold their part
            best = 0
            for e in range(s.open):
                k = whole(listed, e).v
                rank = -r.leaf(s.leaf, k).up * leaves + k
                if _eligible(s, k) >= share and after < rank < best:
                    best = rank
            if best == 0:
                break
            after = best
            r.cell(s, l.AT, found).v = best % leaves
            r.cell(s, l.COUNT, found).v = left // (m - found)
            left -= left // (m - found)
            found += 1
        if found < m:
            continue
        tries += 1
        if demand_ok(s, j, m) >= 0:
            _keep(s, m)
            return m
    return 0


@part
def bits(mask: int) -> int:
    """How many bits are set."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@part
def tally(s: Record, k: int) -> None:
    """Book what leaf k did since it was last looked at."""
    leaf = r.leaf(s.leaf, k)
    leaf.held += (s.now - leaf.since) * leaf.busy
    leaf.served += (s.now - leaf.since) * leaf.active
    leaf.since = s.now


@part
def _less(s: Record, x: int, milli: int, released: int) -> None:
    """Server x does `milli` thousandths of a GPU less, and uses `released` GPUs less."""
    server = r.server(s.server, x)
    tally(s, server.leaf)
    leaf = r.leaf(s.leaf, server.leaf)
    leaf.busy -= milli
    s.busy -= milli
    server.used -= released
    if released and server.used == 0:
        s.active -= 1
        leaf.active -= 1


@part
def occupy(s: Record, j: int, m: int) -> None:
    """Give job j its GPUs on the leaves in AT: whole servers first, then the best one for the rest."""
    job = r.job(s.job, j)
    s.until = s.now + job.left
    job.head, job.at = l.NONE, r.cell(s, l.AT, 0).v
    servers, domains = 0, 0
    for i in range(m):
        k, left = r.cell(s, l.AT, i).v, r.cell(s, l.COUNT, i).v
        r.leaf(s.leaf, k).free -= left
        tally(s, k)
        r.leaf(s.leaf, k).busy += left * l.WHOLE
        first, last = r.leaf(s.leaf, k).first, r.leaf(s.leaf, k).first + r.leaf(s.leaf, k).servers
        while left > 0:
            best, chosen = LARGE, first
            for x in range(first, last):
                if r.server(s.server, x).free == 0:
                    continue
                cost = _cost(s, x, left, s.placement)
                if cost < best:
                    best, chosen = cost, x
            put = min(left, r.server(s.server, chosen).free)
            domains += _fill(s, j, chosen, put)
            left -= put
            servers += 1
    job.servers, job.domains = servers, domains
    s.free -= job.n
    s.busy += job.n * l.WHOLE


@part
def _fill(s: Record, j: int, x: int, count: int) -> int:
    """Take `count` GPUs of server x, from as few PCIe domains as can be; how many domains."""
    domain, touched, mask, left = s.domain, 0, r.server(s.server, x).mask, count
    while left > 0:
        best, chosen = LARGE, 0
        for d in range(s.per_server // domain):
            free = bits((mask >> (d * domain)) & ((1 << domain) - 1))
            if free == 0:
                continue
            cost = free - left if free >= left else 100 - free
            if cost < best:
                best, chosen = cost, d
        for b in range(chosen * domain, (chosen + 1) * domain):
            if left > 0 and (mask >> b) & 1:
                _own(s, j, x * s.per_server + b)
                mask ^= 1 << b
                left -= 1
        touched += 1
    _use(s, x, count, mask)
    return touched


@part
def _own(s: Record, j: int, gpu: int) -> None:
    """Put a GPU at the head of the list of job j's GPUs."""
    row, job = r.gpu(s.gpu, gpu), r.job(s.job, j)
    row.owner = j
    row.next = job.head
    job.head = gpu


@part
def _use(s: Record, x: int, count: int, mask: int) -> None:
    """Mark `count` more GPUs of server x as used; `mask` is the set of free ones."""
    server = r.server(s.server, x)
    if server.used == 0:
        s.active += 1
        r.leaf(s.leaf, server.leaf).active += 1
        server.until = s.until
    server.until = max(server.until, s.until)
    server.used += count
    server.mask = mask
    server.free -= count


@part
def _open(s: Record, gpu: int) -> None:
    """A GPU is free."""
    x = gpu // s.per_server
    server = r.server(s.server, x)
    server.mask |= 1 << (gpu - x * s.per_server)
    server.free += 1
    r.leaf(s.leaf, server.leaf).free += 1
    s.free += 1


@part
def release(s: Record, j: int) -> None:
    """Take back the GPUs of job j."""
    job = r.job(s.job, j)
    if job.milli < l.WHOLE:
        _release_share(s, j)
        return
    gpu = job.head
    while gpu >= 0:  # those of a server follow one another
        x = gpu // s.per_server
        first, count, opened, mask = x * s.per_server, 0, 0, 0
        while first <= gpu < first + s.per_server:
            row = r.gpu(s.gpu, gpu)
            row.owner = l.NONE
            count += 1
            if not row.down:
                opened += 1
                mask |= 1 << (gpu - first)
            gpu = row.next
        _less(s, x, count * l.WHOLE, count)
        server = r.server(s.server, x)
        server.mask |= mask
        server.free += opened
        r.leaf(s.leaf, server.leaf).free += opened
        s.free += opened
        if s.placement == l.POWER and server.used > 0:
            server.until = 0.0
            for one in range(first, first + s.per_server):
                if r.gpu(s.gpu, one).owner >= 0:
                    server.until = max(server.until, real(s.due, r.gpu(s.gpu, one).owner).v)
    job.head = l.NONE


@part
def share(s: Record, j: int) -> bool:
    """Give job j a part of one GPU: of the fullest shared one that holds it, else of a GPU of the fullest server."""
    job = r.job(s.job, j)
    best, chosen = l.WHOLE + 1, l.NONE
    for gpu in range(s.gpus):
        left = r.gpu(s.gpu, gpu).milli
        if job.milli <= left < l.WHOLE and left < best and not r.gpu(s.gpu, gpu).down:
            best, chosen = left, gpu
            if left == job.milli:
                break
    if chosen < 0:
        if s.free == 0:
            return False
        best = LARGE
        for x in range(s.servers):
            if 0 < r.server(s.server, x).free < best and not r.leaf(s.leaf, r.server(s.server, x).leaf).down:
                best, chosen = r.server(s.server, x).free, x
        if chosen < 0:
            return False
        x, b = chosen, 0
        tally(s, r.server(s.server, x).leaf)
        while not (r.server(s.server, x).mask >> b) & 1:
            b += 1
        chosen = x * s.per_server + b
        _use(s, x, 1, r.server(s.server, x).mask ^ (1 << b))
        r.leaf(s.leaf, r.server(s.server, x).leaf).free -= 1
        s.free -= 1
    r.gpu(s.gpu, chosen).milli -= job.milli
    leaf = r.server(s.server, chosen // s.per_server).leaf
    tally(s, leaf)
    job.at = leaf
    r.leaf(s.leaf, leaf).busy += job.milli
    job.head, job.servers, job.domains = chosen, 1, 1
    s.busy += job.milli
    return True


@part
def _release_share(s: Record, j: int) -> None:
    job = r.job(s.job, j)
    gpu = job.head
    r.gpu(s.gpu, gpu).milli += job.milli
    job.head = l.NONE
    empty = r.gpu(s.gpu, gpu).milli == l.WHOLE
    _less(s, gpu // s.per_server, job.milli, 1 if empty else 0)
    if empty and not r.gpu(s.gpu, gpu).down:
        _open(s, gpu)
