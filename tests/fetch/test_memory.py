from kafka_remote_client.fetch.memory import BufferPool, Lease, MemoryBudget


def test_takes_what_fits_and_refuses_the_rest() -> None:
    budget = MemoryBudget(100)
    budget.force(60)
    assert not budget.fits(41)
    assert budget.fits(40)
    budget.force(40)
    budget.give_back(60)
    assert budget.held == 40


def test_a_size_beyond_the_limit_fits_only_alone() -> None:
    budget = MemoryBudget(100)
    assert budget.fits(500)
    budget.force(500)
    assert not budget.fits(1)
    budget.give_back(500)
    budget.force(1)
    assert not budget.fits(500)


def test_what_is_decoded_is_counted_even_when_it_does_not_fit() -> None:
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


def test_buffers_are_used_again_when_they_fit_well() -> None:
    pool = BufferPool(keep=lambda: 16_000_000)
    first = pool.take(1_000_000)
    assert len(first) >= 1_000_000
    pool.give_back(first)
    assert pool.take(100) is not first
    assert pool.take(900_000) is first


def test_keeps_no_more_buffers_than_told() -> None:
    pool = BufferPool(keep=lambda: 1_500_000)
    first, second = pool.take(1_000_000), pool.take(1_000_000)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take(1_000_000) is second
    assert pool.take(1_000_000) is not first


def test_buffers_of_a_size_that_is_wanted_no_more_go() -> None:
    pool = BufferPool(keep=lambda: 16_000_000)
    small = pool.take(1_000_000)
    pool.give_back(small)
    assert len(pool.take(8_000_000)) >= 8_000_000
    assert pool.take(1_000_000) is not small


def test_the_buffer_given_back_last_is_used_first() -> None:
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


def test_a_small_range_gets_no_buffer_of_the_largest() -> None:
    pool = BufferPool(keep=lambda: 20_000_000, largest=8_000_000)
    assert len(pool.take(1_000_000)) < 2_000_000


def test_idle_buffers_take_an_eighth_to_half_of_the_limit() -> None:
    budget = MemoryBudget(1000)
    found = []
    for held in (0, 400, 600, 700, 900, 1100):
        budget.held = held
        found.append(budget.for_idle_buffers)
    assert found == [500, 500, 400, 300, 125, 125]
