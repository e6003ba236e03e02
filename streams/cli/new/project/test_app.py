"""Tests the application without Kafka."""

from app import Order, Revenue, settings, topology

from streams import TopologyTestDriver


def test_the_orders_of_a_customer_are_added_up() -> None:
    with TopologyTestDriver(topology, settings) as driver:
        orders = driver.create_input_topic("orders")
        orders.pipe_input("1", Order(customer="ann", cents=500))
        orders.pipe_input("2", Order(customer="bob", cents=250))
        orders.pipe_input("3", Order(customer="ann", cents=100))
        revenue = driver.create_output_topic("revenue-by-customer").read_key_values_to_map()
    assert revenue == {"ann": Revenue(orders=2, cents=600), "bob": Revenue(orders=1, cents=250)}


def test_a_bad_order_is_a_dead_letter() -> None:
    with TopologyTestDriver(topology, settings) as driver:
        orders = driver.create_input_topic("orders", value_serde="string")
        orders.pipe_input("1", '{"customer": "ann", "cents": -5}')
        orders.pipe_input("2", '{"customer": "ann", "cents": 500}')
        letters = driver.create_output_topic("my-application-dead-letters", "string", "string")
        assert letters.read_values() == ['{"customer": "ann", "cents": -5}']
        revenue = driver.create_output_topic("revenue-by-customer").read_value()
    assert revenue == Revenue(orders=1, cents=500)
