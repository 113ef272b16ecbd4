from kafka_remote_client.fetch.memory import BufferPool, Lease, MemoryBudget


def test_memory_is_granted_up_to_the_limit() -> None:
    budget = MemoryBudget(100)
    budget.force(60)
    assert not budget.fits(41)
    assert budget.fits(40)
    budget.force(40)
    budget.give_back(60)
    assert budget.held == 40


def test_a_size_over_the_limit_is_granted_only_if_nothing_is_held() -> None:
    budget = MemoryBudget(100)
    assert budget.fits(500)
    budget.force(500)
    assert not budget.fits(1)
    budget.give_back(500)
    budget.force(1)
    assert not budget.fits(500)


def test_decoded_bytes_are_counted_even_over_the_limit() -> None:
    budget = MemoryBudget(100)
    budget.force(150)
    assert not budget.fits(1)


def test_a_lease_is_released_by_its_last_user() -> None:
    released: list[Lease] = []
    lease = Lease(10, released.append)
    lease.share()
    lease.drop()
    assert released == []
    lease.drop()
    assert released == [lease]


def test_buffers_are_reused_if_the_size_fits_well() -> None:
    pool = BufferPool(keep=lambda: 16_000_000)
    first = pool.take(1_000_000)
    assert len(first) >= 1_000_000
    pool.give_back(first)
    assert pool.take(100) is not first
    assert pool.take(900_000) is first


def test_keeps_no_more_buffers_than_the_limit() -> None:
    pool = BufferPool(keep=lambda: 1_500_000)
    first, second = pool.take(1_000_000), pool.take(1_000_000)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take(1_000_000) is second
    assert pool.take(1_000_000) is not first


def test_buffers_of_an_unused_size_are_freed() -> None:
    pool = BufferPool(keep=lambda: 16_000_000)
    small = pool.take(1_000_000)
    pool.give_back(small)
    assert len(pool.take(8_000_000)) >= 8_000_000
    assert pool.take(1_000_000) is not small


def test_the_last_returned_buffer_is_used_first() -> None:
    pool = BufferPool(keep=lambda: 16_000_000)
    first, second = pool.take(1_000_000), pool.take(1_000_000)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take(1_000_000) is second
    assert pool.take(1_000_000) is first


def test_buffers_serve_ranges_that_have_grown_to_the_largest() -> None:
    pool = BufferPool(keep=lambda: 20_000_000, largest=8_000_000)
    buffer = pool.take(4_000_000)
    pool.give_back(buffer)
    assert pool.take(8_000_000 + 16_384) is buffer


def test_a_small_range_gets_no_buffer_of_the_largest_size() -> None:
    pool = BufferPool(keep=lambda: 20_000_000, largest=8_000_000)
    assert len(pool.take(1_000_000)) < 2_000_000


def test_idle_buffers_and_held_bytes_stay_below_the_limit() -> None:
    budget = MemoryBudget(1600)
    found = []
    for held in (0, 700, 800, 1400, 1500, 1700):
        budget.held = held
        found.append(budget.for_idle_buffers())
    assert found == [800, 800, 700, 100, 0, 0]


def test_memory_of_ranges_without_a_buffer_is_for_idle_buffers() -> None:
    budget = MemoryBudget(1600)
    budget.held = 1500
    assert [budget.for_idle_buffers(awaited) for awaited in (0, 300, 1500)] == [0, 300, 800]


def test_a_new_buffer_takes_the_place_of_idle_ones() -> None:
    room = 20_000_000
    pool = BufferPool(keep=lambda: room)
    large = [pool.take(4_000_000) for _ in range(4)]
    for buffer in large:
        pool.give_back(buffer)
    room = 10_000_000
    small = pool.take(1_000_000)
    assert len(small) < 2_000_000
    reused = [any(buffer is idle for idle in large) for buffer in [pool.take(4_000_000) for _ in range(3)]]
    assert reused == [True, True, False]
